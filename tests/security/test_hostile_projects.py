"""A project made to harm is sent, or refused with a reason, without a hang or a traceback."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmgen.errors import RequestError, TransferFailed
from slurmgen.sync.files import snapshot
from slurmgen.sync.ignore import LIMIT
from tests.conftest import Run
from tests.scenarios.test_hostile_replies import Machine
from tests.support.twins import settled
from tests.sync.test_files import fill


@pytest.fixture
def machine(tmp_path: Path, slurmgen: Run) -> Machine:
    made = Machine(tmp_path, slurmgen)
    made.answers("sbatch", "echo 11")
    return made


IGNORE_FILES = (".gitignore", ".slurmgenignore")


@pytest.mark.parametrize("name", IGNORE_FILES)
def test_an_ignore_file_that_is_a_pipe_is_refused(machine: Machine, name: str) -> None:
    os.mkfifo(machine.project / name)
    code, _, err = machine.submit("--dry-run")
    reason = "is not an ignore file: it is not a regular file. Replace it, or remove it."
    assert (code, err) == (2, f"error: {machine.project / name} {reason}\n")


@pytest.mark.parametrize("name", IGNORE_FILES)
def test_an_ignore_file_that_leads_out_of_the_project_is_refused(machine: Machine, name: str) -> None:
    (machine.project / "d").mkdir()
    (machine.project / "d" / name).symlink_to("/dev/zero")
    code, _, err = machine.submit("--dry-run")
    assert (code, f"{name} is a link that leads out of the project. Replace it with a file." in err) == (
        2,
        True,
    )


def test_an_ignore_file_may_be_a_link_in_the_project(tmp_path: Path) -> None:
    fill(tmp_path, "a.log", **{"rules": "*.log\n"})
    (tmp_path / ".gitignore").symlink_to("rules")
    assert list(snapshot(tmp_path).files) == [".gitignore", "rules"]


@pytest.mark.parametrize("target", ["nothing", "folder"])
def test_an_ignore_file_that_is_a_folder_or_missing_is_skipped(tmp_path: Path, target: str) -> None:
    fill(tmp_path, "folder/x")
    (tmp_path / ".gitignore").symlink_to(target)
    assert list(snapshot(tmp_path).files) == [".gitignore", "folder/x"]


def test_an_ignore_file_that_leads_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").symlink_to(".gitignore")
    with pytest.raises(TransferFailed, match=r"cannot read .*\.gitignore: Too many levels"):
        snapshot(tmp_path)


def test_an_ignore_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_bytes(b"#" * LIMIT)
    assert list(snapshot(tmp_path).files) == [".gitignore"]
    (tmp_path / ".gitignore").write_bytes(b"#" * (LIMIT + 1))
    with pytest.raises(RequestError, match="is not an ignore file: it is larger than 100,000 bytes"):
        snapshot(tmp_path)


def test_ignore_files_that_are_too_large_together_are_refused(tmp_path: Path) -> None:
    fill(tmp_path, "a/b/x", "c/x")
    for folder in (".", "a", "c"):
        (tmp_path / folder / ".gitignore").write_bytes(b"#" * (LIMIT // 2))
    assert "a/b/x" in snapshot(tmp_path).files
    (tmp_path / "a/b/.gitignore").write_text("x")
    with pytest.raises(RequestError, match="a/b and above have more than 100,000 bytes together"):
        snapshot(tmp_path)


def test_a_pattern_with_many_stars_takes_no_time(machine: Machine) -> None:
    fill(machine.project, "a" * 250, **{".gitignore": "*a*a*a*a*a*ab\n"})
    assert machine.submit("--dry-run")[0] == 0


@pytest.mark.parametrize("line", ["!", "x\\", "\\", "[", "/", "[[:x:]]"])
def test_a_line_without_meaning_is_not_an_error(machine: Machine, line: str) -> None:
    (machine.project / ".slurmgenignore").write_text(line)
    assert machine.submit()[:2] == (0, "11\n")


@pytest.fixture
def deep(machine: Machine) -> Iterator[Machine]:
    """Folders so deep that Python cannot remove them."""
    yield machine
    settled(machine.home / "slurmgen/project")
    subprocess.run(["rm", "-rf", machine.project, machine.home], check=True)


def test_folders_may_be_more_than_a_thousand_deep(deep: Machine) -> None:
    machine = deep
    for depth in range(1, 1201):
        machine.project.joinpath(*"d" * depth).mkdir()
    machine.project.joinpath(*"d" * 1200, "file").write_text("x")
    assert machine.submit()[:2] == (0, "11\n")
    (run,) = (machine.home / "slurmgen/project/runs").iterdir()
    assert run.joinpath(*"d" * 1200, "file").read_text() == "x"


def test_folders_that_are_too_deep_are_refused_with_a_short_message(machine: Machine) -> None:
    folder = os.open(machine.project, os.O_RDONLY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=folder)
        above, folder = folder, os.open("d" * 200, os.O_RDONLY, dir_fd=folder)
        os.close(above)
    os.close(folder)
    code, _, err = machine.submit("--dry-run")
    assert code == 3
    assert "cannot read " in err
    assert "File name too long" in err
    assert len(err) < 1000


def test_many_files_are_no_trouble(machine: Machine) -> None:
    for number in range(20_000):
        (machine.project / f"{number:05}").touch()
    code, out, _ = machine.submit("--dry-run", "--json")
    assert (code, len(json.loads(out)["files"])) == (0, 20_000 + 1)


def test_pipes_and_sockets_are_left_out_and_only_some_are_named(machine: Machine) -> None:
    for number in range(30):
        os.mkfifo(machine.project / f"pipe{number}")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(machine.project / "a-socket"))
        code, _, err = machine.submit("--dry-run")
    assert code == 0
    assert "not sent: 'a-socket', neither a file nor a link\n" in err
    assert "not sent: 21 more of that kind\n" in err


NAMES = [
    b"new\nline",
    b"\x1b]0;title\x07",
    b"\x9b2J",
    b"caf\xe9",
    "\u202edesrever".encode(),
    b"-rf",
    b"$(id)",
]


def test_names_reach_the_terminal_only_with_their_control_characters_escaped(machine: Machine) -> None:
    for name in NAMES:
        Path(os.fsdecode(os.fsencode(machine.project) + b"/" + name)).write_text("x" * 600_000)
    said = "".join(machine.submit("--dry-run")[1:])
    refused = machine.submit("--max-size", "1M")[2]
    doctor = machine.slurmgen("doctor", "--site", "generic", "--via", "local")[1]
    assert r"new\nline" in said
    assert r"new\nline" in refused
    for text in (said, refused, doctor):
        assert all(character.isprintable() for character in text.replace("\n", ""))
    assert refused.count("\n") == 1


def test_a_file_that_cannot_be_read_is_named_with_its_control_characters_escaped(tmp_path: Path) -> None:
    name = "\x1b[2J\n" + "d" * 200
    folder = tmp_path / name
    folder.mkdir()
    (folder / ".gitignore").symlink_to(".gitignore")
    with pytest.raises(TransferFailed) as caught:
        snapshot(tmp_path)
    assert r"\x1b[2J\n" in caught.value.fact
    assert caught.value.fact.isprintable()


def test_what_slurmgenignore_includes_again_is_reported(machine: Machine) -> None:
    fill(
        machine.project,
        "data/x",
        "a.log",
        **{".gitignore": "/data/\n*.log\n", ".slurmgenignore": "!/data/\n!a.log\n"},
    )
    code, _, err = machine.submit("--dry-run")
    assert code == 0
    assert "sent, as .slurmgenignore says, although .gitignore names it: a.log, data/\n" in err
