"""Shell programs that run on the login node. They are sent when they are run; nothing is installed there."""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from slurmgen.errors import CommandFailed
from slurmgen.remote.transport import Transport, chunks
from slurmgen.slurm.commands import CLEAN

Program = Literal["submit", "close", "prune", "check_folder", "where"]
_SHARED = ("common", "ownership")
_OF_A_SUBMISSION = (*_SHARED, "submission", "intents", "lookup")
PARTS: dict[Program, tuple[str, ...]] = {
    "submit": (*_OF_A_SUBMISSION, "sharing", "snapshot_store", "transfer", "sbatch", "login"),
    "close": _OF_A_SUBMISSION,
    "prune": _SHARED,
    "check_folder": _SHARED,
    "where": ("common",),
}
"The files whose functions each program uses, in the order in which they are sent before it."

# As for the frame: see remote/frame.py.
_SHELL = ("bash", "--norc", "--posix", "-p")
_END = "# slurmgen: the end"
# The program is sent as standard input, which becomes descriptor 3, and not as an argument: csh could not
# read its line feeds, and every user of the host can see arguments. If it is cut, none of it is run.
_READ = (
    'exec 3<&0 </dev/null; read -r slurmgen_size <&3 && slurmgen_program=$(head -c "$slurmgen_size" <&3) && '
    f'case $slurmgen_program in *"{_END}") eval "$slurmgen_program" ;; *) exit 1 ;; esac'
)
MARK = "slurmgen answers"
"The first text of a reply; a NUL is before and after it. What a script runs may print something first."
_MAX_TEXTS = 500_000
"In one reply."
_COMMENT_LINES = re.compile(r"^ *#.*\n", re.MULTILINE)


@cache
def program(name: Program) -> str:
    """The text of a program with the parts that it uses before it, without comment lines."""
    folder = Path(__file__).parent
    texts = [(folder / f"{part}.sh").read_text(encoding="ascii") for part in (*PARTS[name], name)]
    return _COMMENT_LINES.sub("", "\n".join(texts)).strip()


def run(
    transport: Transport,
    name: Program,
    args: Sequence[str],
    data: bytes | Iterable[bytes] = b"",
    *,
    timeout: float,
) -> list[str]:
    """Run a program on the remote host, in the user's login environment; its reply, one text or more.

    Args:
        data: its standard input, as descriptor 3.

    Raises:
        CommandFailed: it ended without a reply.
        TimedOut, ConnectionFailed: as for Transport.run.
    """
    completed = transport.run(start(transport.shell), input=_with_program(name, args, data), timeout=timeout)
    _, mark, texts = completed.stdout.rpartition(f"\0{MARK}\0".encode())
    if not mark or not texts.endswith(b"\0") or texts.count(b"\0") > _MAX_TEXTS:
        lines = completed.err.strip().splitlines()[-1:] or ["without a message"]
        raise CommandFailed(
            f"slurmgen's program on {transport.where} ended with exit status {completed.returncode}: "
            f"{lines[0]}",
            "Does a login shell on that host print an error?",
        )
    return [text.decode(errors="surrogateescape") for text in texts[:-1].split(b"\0")]


def start(shell: tuple[str, str]) -> list[str]:
    """The command that reads and runs any program: it can start before the program is known."""
    read = [*_SHELL, "-c", _READ, "slurmgen"]
    return [*shell, CLEAN, "slurmgen", *read]


def _with_program(name: Program, args: Sequence[str], data: bytes | Iterable[bytes]) -> Iterator[bytes]:
    text = f"set -- {shlex.join(args)}\n{program(name)}\n{_END}".encode(errors="surrogateescape")
    yield b"%d\n%s" % (len(text), text)
    yield from chunks(data)
