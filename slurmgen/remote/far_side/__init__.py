"""Programs for the far side, kept as files that a person can read, and how one is run there."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from slurmgen.errors import CommandFailed
from slurmgen.remote.slurm import CLEAN
from slurmgen.remote.transport import Transport, chunks

# The program comes first on standard input and not as an argument: a csh over there could not read
# its line feeds. If the connection is cut within it, none of it is run. Standard input moves to
# descriptor 3, so that no profile reads from it.
_START = (
    'program=$(head -c "$1") && [ "${#program}" = "$1" ] || exit 1; shell=$2 option=$3 clean=$4; shift 4; '
    'exec 3<&0 </dev/null; exec "$shell" "$option" "$clean" slurmgen sh -c "$program" slurmgen "$@"'
)
_MARK = "slurmgen answers"


@cache
def program(name: str) -> str:
    """The text of a program, `name`.sh in this folder."""
    return (Path(__file__).parent / f"{name}.sh").read_text(encoding="ascii").strip()


def ask(
    far: Transport, name: str, args: Sequence[str], data: bytes | Iterable[bytes] = b"", *, timeout: float
) -> list[str]:
    """Run a program over there, as the person would have it, and give its answer: one text or more.

    Raises:
        CommandFailed: it came to its end without one.
        TimedOut, ConnectionFailed: as Transport.run says.
    """
    text = program(name)
    argv = ["sh", "-c", _START, "slurmgen", str(len(text)), *far.shell, CLEAN, *args]
    completed = far.run(argv, input=_after(text, data), timeout=timeout)
    # A profile may print anything before it.
    _, mark, answer = completed.stdout.rpartition(f"\0{_MARK}\0".encode())
    if not mark or not answer.endswith(b"\0"):
        said = completed.err.strip().splitlines()[-1:] or ["it said nothing"]
        raise CommandFailed(
            f"slurmgen's program on {far.where} ended with exit status {completed.returncode}: {said[0]}",
            "Does a login shell there print an error?",
        )
    return [part.decode(errors="surrogateescape") for part in answer[:-1].split(b"\0")]


def _after(text: str, data: bytes | Iterable[bytes]) -> Iterator[bytes]:
    yield text.encode()
    yield from chunks(data)
