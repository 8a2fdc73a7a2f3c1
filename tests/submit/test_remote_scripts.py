"""The shell programs for the login node: sound shell, and none runs unless all of it arrived."""

import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from slurmgen import remote_scripts
from slurmgen.errors import CommandFailed
from slurmgen.remote.local import LocalTransport
from slurmgen.remote.transport import Completed, chunks
from tests.conftest import REPOSITORY

FILES = sorted(Path(remote_scripts.__file__).parent.glob("*.sh"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_shellcheck_finds_nothing(path: Path) -> None:
    subprocess.run(["shellcheck", path], check=True, timeout=300)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_ascii(path: Path) -> None:
    assert path.read_bytes().isascii()  # the remote shell counts characters, in any locale


def test_every_file_is_a_program_or_a_part_of_one() -> None:
    parts = {part for parts in remote_scripts.PARTS.values() for part in parts}
    assert {path.stem for path in FILES} == parts | set(remote_scripts.PARTS)


def test_the_states_in_the_documentation_are_those_that_the_program_writes() -> None:
    text = (REPOSITORY / "docs/reliability.md").read_text()
    section = text.partition("### States of a submission")[2].partition("\n## ")[0]
    program = remote_scripts.program("submit")
    records = re.findall(r"\$records/([A-Za-z.]+)(?=[\s\"])", program.replace("$number", "N"))
    documented = re.findall(r"`((?:intent|job|closed|record|sbatch|shared)[a-zN.]*)`", section)
    assert set(documented) == set(records)
    replies = re.findall(r"^\| `([a-z]+)` \|", section, re.MULTILINE)
    assert set(replies) == set(re.findall(r"(?m)(?:^|[|&)]) *reply ([a-z]+)", program))


@pytest.mark.parametrize("name", remote_scripts.PARTS)
def test_a_program_uses_no_variable_that_its_parts_do_not_set(name: remote_scripts.Program) -> None:
    argv = ["shellcheck", "--shell=sh", "--include=SC2154", "-"]
    subprocess.run(argv, input=remote_scripts.program(name).encode(), check=True, timeout=300)


@pytest.mark.parametrize("name", remote_scripts.PARTS)
def test_a_program_is_sent_without_its_comments(name: remote_scripts.Program) -> None:
    lines = remote_scripts.program(name).splitlines()
    assert not [line for line in lines if line.lstrip().startswith("#")]
    assert sum(map(len, lines)) < 23_000


class Cut(LocalTransport):
    """This machine, on which standard input ends early."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def run(self, argv: Sequence[str], *, input: bytes | Iterable[bytes] = b"", timeout: float) -> Completed:  # noqa: A002
        return super().run(argv, input=b"".join(chunks(input))[: self.left], timeout=timeout)


@pytest.mark.parametrize("missing", [1, 2, 4, 5, 100, 5000])
def test_a_program_that_arrives_incomplete_does_nothing(tmp_path: Path, missing: int) -> None:
    transport = Cut(len(remote_scripts.program("submit")) - missing)
    args = [str(tmp_path / "remote"), "n-k", "k", "h", "?", "0", "0", "0", "s", "./.", "", "c", "", "1", "1"]
    with pytest.raises(CommandFailed):
        remote_scripts.run(transport, "submit", args, timeout=20)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("waited", "grace"), [(0, 5), (30, 30), (120, 50)])
def test_after_no_reply_the_job_is_looked_for_as_long_as_sbatch_took(waited: int, grace: int) -> None:
    part = Path(remote_scripts.__file__).with_name("sbatch.sh").read_text()
    shell = f'{part}\nnow() {{ echo {1000 + waited}; }}\ncalled=1000 grace=5\npatience\necho "$grace"'
    assert subprocess.check_output(["sh", "-c", shell], text=True) == f"{grace}\n"
