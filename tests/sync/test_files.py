"""Which files are sent: those that git lists; and what tar unpacks."""

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurmgen.errors import TransferFailed
from slurmgen.sync.files import Snapshot, snapshot
from slurmgen.sync.manifest import COMPLETE, Entry, _file_header, _header, manifest, pack


def fill(root: Path, *names: str, **texts: str) -> Path:
    for name in (*names, *texts):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(texts.get(name, name))
    return root


def packed(files: Snapshot) -> Iterator[bytes]:
    content = manifest(files)
    return pack(files.files, content, content.entries)


def unpack(files: Snapshot, to: Path) -> Path:
    to.mkdir()
    archive = b"".join(packed(files))
    subprocess.run(["tar", "-x", "-o", "-p", "-f", "-"], input=archive, cwd=to, check=True)
    assert (to / COMPLETE).read_text() == manifest(files).hash
    shutil.rmtree((to / COMPLETE).parent)
    return to


def test_files_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    assert list(snapshot(fill(tmp_path, "b", "a/c", "a.py", "Z")).files) == ["Z", "a.py", "a/c", "b"]


def test_some_folders_are_never_sent(tmp_path: Path) -> None:
    fill(tmp_path, ".git/config", ".venv/bin/python", "a/__pycache__/x.pyc", "a/.venv/y", "kept", ".hidden")
    assert list(snapshot(tmp_path).files) == [".hidden", "kept"]


def test_logs_of_slurm_are_sent_only_if_an_ignore_file_or_the_user_says_so(tmp_path: Path) -> None:
    fill(tmp_path, "slurm-1.out", "a/slurm-2_3.out", "slurm-x.py", "a/slurm.out")
    assert list(snapshot(tmp_path).files) == ["a/slurm.out", "slurm-x.py"]
    assert "slurm-1.out" in snapshot(tmp_path, ["slurm-1.out"]).files
    for name in (".gitignore", ".slurmgenignore"):
        fill(tmp_path, **{f"a/{name}": "!slurm-2*.out\n"})
        found = snapshot(tmp_path)
        assert ("a/slurm-2_3.out" in found.files, "slurm-1.out" in found.files) == (True, False)
        assert found.notices == ()
        (tmp_path / "a" / name).unlink()


IGNORE_CASES = [
    {".gitignore": "*.log\n!keep.log\n", "a.log": "", "keep.log": "", "d/b.log": "", "d/keep.log": ""},
    {".gitignore": "/only\n", "only": "", "d/only": ""},
    {".gitignore": "data/\n", "data/x": "", "d/data/y": "", "data.txt": ""},
    {".gitignore": "data/\n!data/x\n", "data/x": "", "data/y": ""},
    {".gitignore": "data/*\n!data/x\n", "data/x": "", "data/y": ""},
    {".gitignore": "*.pt\n", "d/.gitignore": "!best.pt\n", "d/best.pt": "", "best.pt": "", "d/a.pt": ""},
    {"d/.gitignore": "*\n", "d/x": "", "x": ""},
    {"d/.gitignore": "/x\n", "d/x": "", "d/e/x": "", "x": ""},
    {".gitignore": "**/build/**\n#c\n\n\\#real\n", "a/build/x": "", "#real": "", "#c": ""},
    {".gitignore": "a?c\n[x-z].py\n", "abc": "", "ac": "", "x.py": "", "w.py": ""},
    {".gitignore": "d/**/f\n", "d/f": "", "d/e/f": "", "d/e/g/f": "", "f": ""},
    {".gitignore": "trailing \nspace\\ \n", "trailing": "", "space ": "", "space": ""},
]


@pytest.mark.parametrize("files", IGNORE_CASES)
def test_what_git_would_track_is_sent(tmp_path: Path, files: dict[str, str]) -> None:
    fill(tmp_path, **files)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    command = ["git", "-C", str(tmp_path), "ls-files", "--others", "--exclude-standard", "-z"]
    tracked = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    assert list(snapshot(tmp_path).files) == sorted(name for name in tracked if name)


def test_slurmgenignore_takes_precedence(tmp_path: Path) -> None:
    fill(tmp_path, "data/x", "notes", **{".gitignore": "data/*\n", ".slurmgenignore": "!data/x\nnotes\n"})
    assert list(snapshot(tmp_path).files) == [".gitignore", ".slurmgenignore", "data/x"]


def test_rules_above_the_project_count_up_to_its_repository(tmp_path: Path) -> None:
    fill(
        tmp_path,
        "repo/.git/x",
        "repo/p/a.log",
        "repo/p/q/b",
        **{".gitignore": "*\n", "repo/.gitignore": "*.log\n/p/q\n"},
    )
    assert list(snapshot(tmp_path / "repo/p").files) == []
    fill(tmp_path, "repo/p/c")
    assert list(snapshot(tmp_path / "repo/p").files) == ["c"]


def test_modes_links_and_contents_are_kept(tmp_path: Path) -> None:
    root = fill(tmp_path / "p", "run.sh", "d/data")
    (root / "run.sh").chmod(0o750)
    (root / "d/data").chmod(0o640)
    (root / "d/link").symlink_to("../run.sh")
    (root / "absolute").symlink_to(root / "d/data")
    (root / "folder").symlink_to("d")
    big = os.urandom(3_000_001)
    (root / "big").write_bytes(big)
    (root / "empty").touch()
    there = unpack(snapshot(root), tmp_path / "q")
    assert (there / "run.sh").stat().st_mode & 0o777 == 0o750
    assert (there / "d/data").stat().st_mode & 0o777 == 0o640
    assert (there / "d/link").readlink() == Path("../run.sh")
    assert (there / "absolute").readlink() == Path("d/data")
    assert (there / "folder").readlink() == Path("d")
    assert (there / "big").read_bytes() == big
    assert (there / "empty").read_bytes() == b""


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "../../x", "d/../../outside", "hop/x"])
def test_a_link_that_leads_out_is_left_out_and_reported(tmp_path: Path, target: str) -> None:
    root = fill(tmp_path / "p", "kept", "d/x")
    fill(tmp_path, "outside", "out/x")
    (root / "hop").symlink_to("../out")
    (root / "link").symlink_to(target)
    found = snapshot(root)
    assert list(found.files) == ["d/x", "kept"]
    assert any(notice.startswith("not sent: 'link', a link that leads out") for notice in found.notices)


def test_a_link_to_nothing_inside_is_kept(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("not-yet")
    assert list(snapshot(tmp_path).files) == ["link"]


def test_a_pipe_is_left_out_and_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert snapshot(tmp_path) == Snapshot({}, ("not sent: 'pipe', neither a file nor a link",))


def test_a_circular_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "self").symlink_to(".")
    assert "self" in snapshot(tmp_path).files


HOSTILE = [
    "-rf",
    "--checkpoint-action=exec=sh x",
    "two words",
    "it's",
    "new\nline",
    "naïve ☃",
    "$(touch x)",
    "`x`",
    "a" * 200,
]


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_is_kept(tmp_path: Path, name: str) -> None:
    root = fill(tmp_path / "p", name, f"{name}.d/{name}")
    there = unpack(snapshot(root), tmp_path / "q")
    assert (there / name).read_text() == name
    assert (there / f"{name}.d" / name).exists()


def test_a_name_that_is_not_utf8_is_kept(tmp_path: Path) -> None:
    root = tmp_path / "p"
    root.mkdir()
    (Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9"))).write_text("x")
    there = unpack(snapshot(root), tmp_path / "q")
    assert [os.fsencode(path.name) for path in there.iterdir()] == [b"caf\xe9"]


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    files = snapshot(fill(tmp_path, "a", "b/c"))
    assert list(packed(files)) == list(packed(files))


@pytest.mark.parametrize("change", [b"", b"y" * 3_000_000, b"x" * 2_999_999 + b"yz"])
def test_a_file_that_changes_while_it_is_sent_is_an_error(tmp_path: Path, change: bytes) -> None:
    (tmp_path / "a").write_bytes(b"x" * 3_000_000)
    parts = packed(snapshot(tmp_path))
    sent = [next(parts), next(parts)]
    (tmp_path / "a").write_bytes(change)
    with pytest.raises(TransferFailed, match="a changed while it was sent"):
        sent += parts
    assert COMPLETE.encode() not in b"".join(sent)


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20])
def test_a_file_that_grows_is_sent_as_it_was(
    tmp_path: Path, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a").write_bytes(b"x" * size)
    found = snapshot(tmp_path)
    content = manifest(found)
    (tmp_path / "a").write_bytes(b"x" * size + b"more")
    archive = b"".join(pack(found.files, content, content.entries))
    with tarfile.open(fileobj=io.BytesIO(archive)) as sent:
        assert sent.extractfile("a").read() == b"x" * size  # type: ignore[union-attr]
    assert caplog.messages == [f"a grew while it was sent; the job has its first {size} bytes"]


@settings(deadline=None)
@given(
    st.binary(min_size=1, max_size=130).map(os.fsdecode),
    st.sampled_from([0, 511, 8**11 - 1, 8**11]),
    st.integers(0, 0o777),
    st.sampled_from([-1, 0, 1_700_000_000, 8**11]),
)
def test_a_header_is_that_of_tarfile(name: str, size: int, mode: int, mtime: int) -> None:
    expected = _header(name, mode=mode, size=size, mtime=mtime)
    assert _file_header(name, Entry(mode, size, ""), mtime) == expected


def test_a_file_that_disappears_is_an_error(tmp_path: Path) -> None:
    parts = packed(snapshot(fill(tmp_path, "a")))
    (tmp_path / "a").unlink()
    with pytest.raises(TransferFailed, match=r"cannot read .*a: No such file"):
        list(parts)


names = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        names.filter(lambda name: name not in {".", "..", ".git"}), st.binary(max_size=2000), max_size=5
    )
)
def test_whatever_is_packed_is_unpacked(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    root = tmp_path_factory.mktemp("p")
    for name, data in files.items():
        (root / name).write_bytes(data)
    found = snapshot(root)
    there = unpack(found, tmp_path_factory.mktemp("q") / "r")
    assert {path.name: path.read_bytes() for path in there.iterdir()} == {
        name: Path(path).read_bytes() for name, path in found.files.items()
    }


def test_a_snapshot_over_another_takes_precedence(tmp_path: Path) -> None:
    one, two = fill(tmp_path / "1", "t/a"), fill(tmp_path / "2", "a", "b")
    both = snapshot(one).over(snapshot(two).under("t"))
    assert both.files == {"t/a": str(one / "t/a"), "t/b": str(two / "b")}


def test_folders_may_be_a_thousand_deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(1200):
        Path("d").mkdir()
        monkeypatch.chdir("d")
    Path("file").touch()
    monkeypatch.chdir(tmp_path)
    assert list(snapshot(tmp_path).files) == ["d/" * 1200 + "file"]
    subprocess.run(["rm", "-r", tmp_path / "d"], check=True)
