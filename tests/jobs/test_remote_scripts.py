"""The programs for the far side: sound shell, and nothing of them runs unless all of them came."""

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from slurmgen.errors import CommandFailed
from slurmgen.jobs import remote_scripts
from slurmgen.remote.local import LocalTransport
from slurmgen.remote.transport import Completed, chunks

PROGRAMS = sorted(Path(remote_scripts.__file__).parent.glob("*.sh"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_shellcheck_finds_nothing(path: Path) -> None:
    subprocess.run(["shellcheck", path], check=True, timeout=60)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_no_byte_is_more_than_one_character(path: Path) -> None:
    assert path.read_bytes().isascii()  # its length is counted over there, in whatever locale


class Cut(LocalTransport):
    """This machine, on which standard input ends early."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def run(self, argv: Sequence[str], *, input: bytes | Iterable[bytes] = b"", timeout: float) -> Completed:  # noqa: A002
        return super().run(argv, input=b"".join(chunks(input))[: self.left], timeout=timeout)


@pytest.mark.parametrize("missing", [1, 2, 4, 5, 100, 5000])
def test_a_program_that_is_cut_does_nothing(tmp_path: Path, missing: int) -> None:
    far = Cut(len(remote_scripts.program("submit")) - missing)
    args = [str(tmp_path / "far"), "n-k", "k", "h", "?", "0", "0", "0", "s", "./.", "", "c", "", "1", "1"]
    with pytest.raises(CommandFailed):
        remote_scripts.ask(far, "submit", args, timeout=20)
    assert not list(tmp_path.iterdir())
