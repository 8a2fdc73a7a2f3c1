"""Another content has another name; a file is hashed again only if it may have changed."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmgen.errors import ConfigError, TransferFailed
from slurmgen.sync import manifest as module
from slurmgen.sync.files import snapshot
from slurmgen.sync.manifest import RACY, Entry, Manifest, Sent, manifest


def fill(root: Path) -> Path:
    (root / "d").mkdir(parents=True)
    (root / "a").write_text("one")
    (root / "d/b").write_text("two")
    (root / "link").symlink_to("a")
    return root


def of(root: Path, cache: Path | None = None) -> Manifest:
    return manifest(snapshot(root), cache)


CHANGES = {
    "content": lambda root: (root / "a").write_text("One"),
    "mode": lambda root: (root / "a").chmod(0o755),
    "name": lambda root: (root / "a").rename(root / "c"),
    "target": lambda root: ((root / "link").unlink(), (root / "link").symlink_to("d")),
    "kind": lambda root: ((root / "link").unlink(), (root / "link").write_text("a")),
    "more": lambda root: (root / "c").touch(),
    "less": lambda root: (root / "a").unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_gives_another_name(tmp_path: Path, change: str) -> None:
    root = fill(tmp_path / "p")
    before = of(root).hash
    CHANGES[change](root)
    assert of(root).hash != before


def test_the_same_content_elsewhere_and_later_has_the_same_name(tmp_path: Path) -> None:
    root = fill(tmp_path / "p")
    other = Path(shutil.copytree(root, tmp_path / "q", symlinks=True))
    (other / "a").touch()
    assert of(root).hash == of(other).hash


@given(st.lists(st.text("ab/\0", min_size=1, max_size=4), min_size=2, max_size=2, unique=True))
def test_two_lists_of_names_never_run_together(names: list[str]) -> None:
    one, two = (Manifest({name: Entry(0o644, 0, "x")}) for name in names)
    assert one.hash != two.hash


def age(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes these files look as if they had not changed for long."""
    later = max(path.lstat().st_ctime_ns for path in root.rglob("*")) + RACY + 1
    monkeypatch.setattr(module.time, "time_ns", lambda: later)


def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    read: list[str] = []
    real = module.hash_of
    monkeypatch.setattr(
        module, "hash_of", lambda path, size: (read.append(Path(path).name), real(path, size))[1]
    )
    return read


def test_an_unchanged_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, cache = fill(tmp_path / "p"), tmp_path / "c/hashes"
    age(root, monkeypatch)
    first, read = of(root, cache), reads(monkeypatch)
    assert (of(root, cache), read) == (first, [])
    (root / "a").write_text("six")
    assert of(root, cache).hash != first.hash
    assert read == ["a"]
    assert cache.stat().st_mode & 0o777 == 0o600
    assert cache.parent.stat().st_mode & 0o777 == 0o700


def test_a_file_that_just_changed_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, cache = fill(tmp_path / "p"), tmp_path / "hashes"
    monkeypatch.setattr(module.time, "time_ns", lambda: (root / "a").lstat().st_ctime_ns)
    of(root, cache)
    read = reads(monkeypatch)
    of(root, cache)
    assert sorted(read) == ["a", "b"]


def test_a_change_that_keeps_size_and_mtime_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, cache = fill(tmp_path / "p"), tmp_path / "hashes"
    age(root, monkeypatch)
    first, status = of(root, cache), (root / "a").stat()
    (root / "a").write_text("six")
    os.utime(root / "a", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert of(root, cache).hash != first.hash


@pytest.mark.parametrize("text", [b"", b"\xff", b"\x81\xa1a\x05", b"\x80"])
def test_a_broken_cache_is_ignored(tmp_path: Path, text: bytes) -> None:
    root, cache = fill(tmp_path / "p"), tmp_path / "hashes"
    cache.write_bytes(text)
    assert of(root, cache) == of(root)


def test_a_cache_that_cannot_be_written_is_not_an_error(tmp_path: Path) -> None:
    root = fill(tmp_path / "p")
    (tmp_path / "file").touch()
    assert of(root, tmp_path / "file/hashes") == of(root)


def test_a_name_that_is_not_utf8_is_hashed(tmp_path: Path) -> None:
    root = fill(tmp_path / "p")
    Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9")).write_text("x")
    assert of(root, tmp_path / "hashes").hash == of(root).hash


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    files = snapshot(fill(tmp_path / "p"))
    (tmp_path / "p/a").unlink()
    with pytest.raises(TransferFailed, match=r"cannot read .*/a: No such file"):
        manifest(files)


def entries(*names: str) -> Manifest:
    return Manifest({name: Entry(0o644, 1_000_000, name) for name in names})


def test_the_base_with_which_least_is_sent_is_taken(tmp_path: Path) -> None:
    sent, new = Sent(tmp_path / "m"), entries("a", "b", "c")
    near, distant = entries("a", "b", "x"), entries("x")
    for one in (near, distant):
        sent.add(one)
    assert sent.best(new, [distant.hash, near.hash, "0" * 64]) == (near.hash, near)
    assert sent.best(new, [distant.hash]) == (distant.hash, distant)
    assert sent.best(new, []) is None


def test_a_manifest_with_a_wrong_name_is_not_used(tmp_path: Path) -> None:
    sent, one = Sent(tmp_path / "m"), entries("a")
    sent.add(one)
    (tmp_path / "m" / one.hash).rename(tmp_path / "m" / ("0" * 64))
    (tmp_path / "outside").write_bytes(b"x")
    assert sent.best(one, ["0" * 64, "../outside", "", "\n"]) is None


def test_removed_names_include_folders(tmp_path: Path) -> None:
    base, new = entries("a/b/c", "a/d", "e", "f"), entries("a", "e/x", "f")
    assert new.gone_since(base) == ["a", "a/b", "a/b/c", "a/d", "e"]


def test_only_the_last_manifests_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT", 2)
    sent = Sent(tmp_path / "m")
    for number, name in enumerate("abc"):
        sent.add(entries(name))
        os.utime(tmp_path / "m" / entries(name).hash, (number, number))
    sent.add(entries("d"))
    assert set(sent.names()) == {entries("d").hash, entries("c").hash}


@pytest.mark.parametrize("umask", [0, 0o022])
def test_the_cache_is_made_private(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        of(fill(tmp_path / "p"), tmp_path / "cache/slurmgen/hashes/x")
    finally:
        os.umask(before)
    folders = [tmp_path / "cache", tmp_path / "cache/slurmgen", tmp_path / "cache/slurmgen/hashes"]
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o700] * 3
    assert (folders[-1] / "x").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("place", ["", "hashes", "hashes/x"])
def test_a_cache_that_other_users_may_write_to_is_not_used(tmp_path: Path, place: str) -> None:
    cache = tmp_path / "cache/hashes/x"
    root = fill(tmp_path / "p")
    sent = Sent(cache.parent.with_name("manifests"))
    sent.add(of(root, cache))
    for path in (tmp_path / "cache" / place, sent.folder):
        path.chmod(path.stat().st_mode | 0o022)
    with pytest.raises(ConfigError, match="is not safe to use: other users may write to"):
        of(root, cache)
    with pytest.raises(ConfigError, match="is not safe to use: other users may write to"):
        sent.best(of(root), sent.names())
