"""Whatever a login node, a job or a repository with links brings, results stay in their folder."""

import os
import tarfile
import time
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path

import pytest

from slurmgen.errors import RequestError, TransferFailed
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.results import archive as result_archive
from slurmgen.results import folder as result_folder
from slurmgen.results.fetch import Results, fetch
from tests.conftest import Run
from tests.support.archives import (
    FOLDER,
    HARD_LINK,
    LINK,
    Fields,
    Sender,
    archive,
    contents,
    fetched,
    header,
    outside_links,
)

Fetch = Callable[..., "tuple[int, str]"]
REFUSED = (TransferFailed, RequestError)


@pytest.fixture
def fetch_12(slurmgen: Run, tmp_path: Path) -> Fetch:
    """Run `slurmgen fetch 12` in ~/proj, where the login node answers with an archive."""
    home, run = tmp_path / "h", tmp_path / "far/p/runs/KEY"
    for folder in (home / "proj", run, tmp_path / "far/p/submissions/KEY", tmp_path / "bin"):
        folder.mkdir(parents=True, exist_ok=True)
    (tmp_path / "far/p/submissions/KEY/intent.1").symlink_to("x")
    (tmp_path / "bin/tar").write_text(f"#!/bin/sh\ncat '{tmp_path}/archive'\n")
    (tmp_path / "bin/tar").chmod(0o755)
    facts = {"site": "generic", "via": "local", "name": "a", "output": "a.out", "submitted": "2025-01-01"}
    Ledger().settle(Record(id="12", folder=str(run), **facts))  # type: ignore[arg-type]
    environ = {**os.environ, "HOME": str(home), "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}

    def run_fetch(data: bytes, *options: str) -> tuple[int, str]:
        (tmp_path / "archive").write_bytes(data)
        reply = slurmgen("fetch", "12", *options, cwd=home / "proj", env=environ)
        assert "Traceback" not in reply.stderr
        return reply.returncode, reply.stderr

    return run_fetch


def chain(levels: int = 16) -> bytes:
    """Folders of 247 letters, each with a short link to it, so that a path through the links is too long.

    Every link is a hard link to a symlink, and `escape` leads through them to the folder above.
    """
    letters = "abcdefghijklmnop"[:levels]
    members: list[tuple[str, Fields]] = [("payload", {})]
    path = ""
    for letter in letters:
        members += [
            (f"{path}{'d' * 247}", FOLDER),
            (f"0{letter}", {**LINK, "linkname": "d" * 247}),
            (f"{path}{letter}", {**HARD_LINK, "linkname": f"0{letter}"}),
        ]
        path += f"{'d' * 247}/"
    short = "/".join(letters) + "/"
    members += [
        ("0top", {**LINK, "linkname": "../" * levels}),
        (f"{short}{'l' * 254}", {**HARD_LINK, "linkname": "0top"}),
        ("0escape", {**LINK, "linkname": f"{short}{'l' * 254}/../../.."}),
        ("escape", {**HARD_LINK, "linkname": "0escape"}),
        ("0aliases", {**LINK, "linkname": "proj/a-12/payload"}),
        ("escape/.bash_aliases", {**HARD_LINK, "linkname": "0aliases"}),
        ("escape/made", FOLDER),
        ("escape/file", {}),
    ]
    return archive(*members)


def test_a_chain_of_links_over_the_longest_path_does_not_lead_out(fetch_12: Fetch, tmp_path: Path) -> None:
    before = contents(tmp_path / "h")
    exit_code, stderr = fetch_12(chain())
    here = tmp_path / "h/proj/a-12"
    assert exit_code == 1
    assert "not fetched: escape: it leads out of the folder" in stderr
    assert contents(tmp_path / "h", without=here) == before
    assert outside_links(here) == []
    assert (here / "payload").read_text() == "evil"
    assert not (here / "escape").is_symlink()


EVIL: dict[str, list[tuple[str, Fields]]] = {
    "a path upward": [("../evil", {})],
    "an absolute path": [("/evil", {})],
    "an absolute path upward": [("/../../evil", {})],
    "a path upward and back": [("d/../../b/evil", {})],
    "a link upward": [("evil", {**LINK, "linkname": "../../outside"})],
    "a link upward in a folder": [("d/evil", {**LINK, "linkname": "../../outside"})],
    "an absolute link": [("evil", {**LINK, "linkname": "/etc/passwd"})],
    "a link through a link to its own folder": [
        ("p", {**LINK, "linkname": "."}),
        ("r", {**LINK, "linkname": "p/.."}),
    ],
    "a link through a link that comes later": [
        ("r", {**LINK, "linkname": "z/.."}),
        ("z", {**LINK, "linkname": "."}),
    ],
    "a link through a file": [("f", {}), ("evil2", {**LINK, "linkname": "f/../.."})],
    "a hard link upward": [("evil", {**HARD_LINK, "linkname": "../outside"})],
    "a hard link to a file of the user": [("evil", {**HARD_LINK, "linkname": "mine"})],
    "a hard link to an absolute path": [("evil", {**HARD_LINK, "linkname": "/etc/passwd"})],
    "a hard link to a link that leads out": [
        ("l", {**LINK, "linkname": "/etc"}),
        ("m", {**HARD_LINK, "linkname": "l"}),
    ],
    "a hard link to what comes later": [("evil", {**HARD_LINK, "linkname": "l"}), ("l", {})],
    "through a link": [("d", {**LINK, "linkname": ".."}), ("d/evil", {})],
    "a device": [("evil", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3})],
    "a pipe": [("evil", {"type": tarfile.FIFOTYPE})],
    "a member of an unknown kind": [("evil", {"type": b"Z"})],
    "a name too long": [("n" * 256, {})],
    "a path too long": [("/".join(["n" * 250] * 17), {})],
    "a path too deep": [("n/" * 101 + "n", {})],
    "a link that leads nowhere": [("evil", {**LINK, "linkname": ""})],
}


@pytest.mark.parametrize("case", EVIL)
def test_no_member_leaves_its_folder(tmp_path: Path, case: str) -> None:
    (tmp_path / "outside").write_text("mine")
    to = tmp_path / "a/b"
    to.mkdir(parents=True)
    (to / "mine").write_text("mine")
    before = contents(tmp_path, without=to)
    result = fetched(archive(*EVIL[case]), to)
    assert contents(tmp_path, without=to) == before
    assert result.refused
    assert result.reasons.keys() == set(result.refused)
    assert outside_links(to) == []
    assert all(path.is_file() for path in to.rglob("evil"))


def test_a_second_fetch_does_not_turn_a_link_outward(tmp_path: Path) -> None:
    """A link that leads upward from a name that is missing could lead anywhere once that is a link."""
    to = tmp_path / "to"
    fetched(archive(("s/l", {**LINK, "linkname": "d/../../t"}), ("s/f", {})), to)
    fetched(archive(("s/d", {**LINK, "linkname": "."}), ("t", {})), to, overwrite=True)
    assert outside_links(to) == []


TO_GOOD: dict[str, Fields] = {
    "file": {},
    "symlink": {**LINK, "linkname": "good"},
    "hard link": {**HARD_LINK, "linkname": "good"},
}


@pytest.mark.parametrize(
    "name",
    [
        *(".git/config", ".GIT/hooks/pre-commit", "d/.Git", ".g\u200cit/config", ".\uff47it/config"),
        *(".hg/hgrc", ".venv/bin/activate", "__pycache__/train.cpython-311.pyc", ".slurmgen/x"),
        *("HEAD", "exp/HEAD"),
    ],
)
@pytest.mark.parametrize("kind", TO_GOOD)
def test_what_a_shell_prompt_would_run_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    result = fetched(archive(("good", {}), (name, TO_GOOD[kind])), tmp_path / "to")
    assert (result.new, result.refused) == (("good",), (name,))


def test_no_link_leads_into_a_repository_of_the_user(tmp_path: Path) -> None:
    (tmp_path / ".git/hooks").mkdir(parents=True)
    result = fetched(archive(("out", {**LINK, "linkname": ".git/hooks"})), tmp_path)
    assert result.refused == ("out",)


def test_files_that_only_look_dangerous_are_fetched(tmp_path: Path) -> None:
    names = ("HEAD.txt", ".gitattributes", "a.git/x", "git", "head/weights", "slurmgen.toml", ".envrc")
    result = fetched(archive(*((name, {}) for name in names)), tmp_path / "to")
    assert set(result.new) == set(names)


@pytest.mark.parametrize(
    ("umask", "expected"),
    [
        (0o000, [0o755, 0o644, 0o600, 0o755, 0o600]),
        (0o077, [0o700, 0o600, 0o600, 0o700, 0o600]),
    ],
)
def test_setuid_and_the_right_of_others_to_write_are_dropped(
    tmp_path: Path, umask: int, expected: list[int]
) -> None:
    modes = [0o6777, 0o666, 0o600, 0o755, 0o000]
    previous = os.umask(umask)
    try:
        fetched(archive(*((str(mode), {"mode": mode}) for mode in modes)), tmp_path / "to")
    finally:
        os.umask(previous)
    assert [(tmp_path / "to" / str(mode)).stat().st_mode & 0o7777 for mode in modes] == expected


def test_no_member_goes_through_a_link_of_the_user(tmp_path: Path) -> None:
    """A cloned repository may have links, and `--to .` places files beside them."""
    to, elsewhere = tmp_path / "to", tmp_path / "elsewhere"
    to.mkdir()
    (elsewhere / "sub").mkdir(parents=True)
    (to / "d").symlink_to("../elsewhere")
    (to / "file").symlink_to("../elsewhere/file")
    before = contents(tmp_path)
    evil = archive(
        ("d/evil", {}),
        ("d/sub/evil", {}),
        ("d/new/evil", {}),
        ("file", {}),
        ("through", {**LINK, "linkname": "d/sub"}),
        ("d/link", {**LINK, "linkname": "good"}),
    )
    result = fetched(evil, to)
    assert result.kept == ("d/evil", "d/link", "d/new/evil", "d/sub/evil", "file")
    assert result.refused == ("through",)
    assert contents(tmp_path) == before
    assert fetched(archive(("d/evil", {}), ("good", {})), to, overwrite=True) == Results(
        folder=to, new=("good",), kept=("d/evil",)
    )
    assert fetched(archive(("file", {})), to, overwrite=True).new == ("file",)
    assert not (to / "file").is_symlink()
    assert [path.name for path in elsewhere.rglob("*")] == ["sub"]


@pytest.mark.parametrize(
    ("link", "to", "said"),
    [("a-12", "", "a-12 is a link"), *(("home", to, "home folder") for to in ("..", "../..", "home"))],
)
def test_results_go_neither_through_a_link_nor_into_the_home_folder(
    fetch_12: Fetch, tmp_path: Path, link: str, to: str, said: str
) -> None:
    (tmp_path / "h/proj" / link).symlink_to("..")
    before = contents(tmp_path / "h")
    exit_code, stderr = fetch_12(archive((".bash_aliases", {})), *(["--to", to] if to else []))
    assert (exit_code, said in stderr) == (2, True)
    assert contents(tmp_path / "h") == before


def test_a_folder_that_is_a_circle_of_links_is_an_error(fetch_12: Fetch, tmp_path: Path) -> None:
    (tmp_path / "h/proj/circle").symlink_to("circle")
    assert fetch_12(archive(("x", {})), "--to", "circle")[0] == 2


def test_gitignore_is_not_written_through_a_link(fetch_12: Fetch, tmp_path: Path) -> None:
    fetch_12(archive((".gitignore", {**LINK, "linkname": "target"})))
    assert not (tmp_path / "h/proj/a-12/target").exists()


@pytest.mark.parametrize(
    ("to", "written"),
    [("new", True), ("empty", True), ("full", False), ("../beside", False), (".", False)],
)
def test_gitignore_is_written_into_a_new_folder_of_the_project(
    fetch_12: Fetch, tmp_path: Path, to: str, written: bool
) -> None:
    project = tmp_path / "h/proj"
    (project / "empty").mkdir()
    (project / "full").mkdir()
    (project / "full/mine").touch()
    assert fetch_12(archive(("x", {})), "--to", to)[0] == 0
    assert (project / to / ".gitignore").exists() == written


END = bytes(1024)
MALFORMED = {
    "nothing": b"",
    "text": b"hello" * 1000,
    "gzip": b"\x1f\x8b\x08\0" + bytes(1000),
    "a wrong checksum": header()[:148] + b"0000000\0" + header()[156:] + END,
    "no end": header(4) + b"evil" + bytes(508),
    "a content that is cut": header(4) + b"ev",
    "a content of 2 GiB that is cut": header(1 << 31) + b"ev",
    "a negative size": header(-5) + END,
    "a size of 8 EiB": header((1 << 63) - 1) + END,
    "a size beyond any number": header(1 << 80) + END,
    "a long name that never ends": header(1 << 40, tarfile.GNUTYPE_LONGNAME) + END,
    "a negative long name": header(-1, tarfile.GNUTYPE_LONGNAME) + END,
    "a pax header of 8 GiB": header(1 << 33, tarfile.XHDTYPE) + END,
    "a pax header": header(9, tarfile.XHDTYPE) + b"9 path=x\n" + bytes(503) + header() + END,
    "a GNU sparse file without numbers": header(0, tarfile.GNUTYPE_SPARSE) + END,
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_archive_is_an_error_and_changes_nothing(tmp_path: Path, case: str) -> None:
    data = header(4, name="first") + b"good" + bytes(508) + MALFORMED[case]
    before = contents(tmp_path)
    with pytest.raises(REFUSED):
        fetched(data if MALFORMED[case] else b"", tmp_path / "new/to")
    assert contents(tmp_path) == before


def test_a_malformed_archive_is_a_failure_of_the_remote_host(fetch_12: Fetch, tmp_path: Path) -> None:
    before = contents(tmp_path / "h")
    exit_code, stderr = fetch_12(header(-5) + END)
    assert exit_code == 3
    assert stderr.startswith("error: this machine sent no valid archive of")
    assert stderr.count("\n") == 1
    assert contents(tmp_path / "h") == before


@pytest.mark.parametrize(
    ("begin", "endless"),
    [
        (b"", b"noise" * 1000),
        (END, bytes(5000)),
        (b"", header(512, tarfile.GNUTYPE_LONGNAME) + b"x" * 512),
        (b"", header(1 << 20, tarfile.GNUTYPE_LONGLINK) + bytes(1 << 20)),
        (b"", header(0, name="n" * 99)),
    ],
)
def test_an_endless_stream_is_refused(
    tmp_path: Path, begin: bytes, endless: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_folder, "MAX_FILES", 1000)
    monkeypatch.setattr("slurmgen.results.archive.MAX_NAMES", 1 << 23)
    with pytest.raises(REFUSED):
        fetch(Sender(begin, endless=repeat(endless)), "/f", tmp_path / "to")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("part", [b"", b"\0"])
def test_a_stream_without_progress_times_out(
    tmp_path: Path, part: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_archive, "SILENCE", 0.2)

    def drip() -> Iterator[bytes]:
        yield header(1 << 30)
        for _ in range(500):
            time.sleep(0.01)
            yield part

    with pytest.raises(TransferFailed, match="bytes of it came in"):
        fetch(Sender(endless=drip()), "/f", tmp_path / "to")  # type: ignore[arg-type]


def test_more_than_the_largest_size_is_refused_and_changes_nothing(fetch_12: Fetch, tmp_path: Path) -> None:
    before = contents(tmp_path / "h")
    large = archive(("a", {}), ("b", {}), data=bytes(600_000))
    exit_code, stderr = fetch_12(large, "--max-size", "1M")
    assert exit_code == 2
    assert "the job made more than 1M. Fetch some of it with --only, or allow more with --max-size." in stderr
    assert contents(tmp_path / "h") == before
    assert fetch_12(large, "--max-size", "2M")[0] == 0


def test_too_many_files_are_refused_and_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_folder, "MAX_FILES", 3)
    four = [(str(number), Fields()) for number in range(4)]
    with pytest.raises(RequestError, match="more than 3 files"):
        fetched(archive(*four), tmp_path / "to")
    assert list(tmp_path.iterdir()) == []
    assert len(fetched(archive(*four[:3]), tmp_path / "to").new) == 3


def test_a_size_is_refused_before_it_is_received(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="more than 100G"):
        fetched(header(1 << 40) + b"x", tmp_path / "to")


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RequestError, match="results cannot be written in"):
        fetched(archive(("x", {})), tmp_path / "file/to")


def test_names_cannot_control_the_terminal(fetch_12: Fetch) -> None:
    _, stderr = fetch_12(archive(("../\x1b]0;evil\x07", {}), data=b""))
    assert "\x1b" not in stderr


def test_many_refusals_are_counted(fetch_12: Fetch) -> None:
    _, stderr = fetch_12(archive(*((f"../{number}", {}) for number in range(50))))
    assert stderr.count("\n") == 22
    assert "not fetched: 30 more, which --json lists" in stderr


@pytest.mark.parametrize("left", [1, 100, 600, 1300])
def test_a_stream_that_is_cut_changes_nothing(tmp_path: Path, left: int) -> None:
    whole = archive(("a", {}), ("b", {}), data=b"x" * 1000)
    with pytest.raises(TransferFailed):
        fetch(Sender(whole[:left], fails=True), "/f", tmp_path / "to")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_fails_after_a_whole_archive_changes_nothing(tmp_path: Path) -> None:
    with pytest.raises(TransferFailed, match="tar failed"):
        fetch(Sender(archive(("a", {})), fails=True), "/f", tmp_path / "to")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
