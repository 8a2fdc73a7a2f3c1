"""Programs for the far side, kept as files that a person can read, and how one is run there."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from slurmgen.errors import CommandFailed
from slurmgen.jobs.slurm_client import CLEAN
from slurmgen.remote.transport import Transport, chunks

# Standard input moves to descriptor 3, so that no profile reads from it. The program comes there and not as
# an argument: a csh could not read its line feeds, and everybody there can see arguments.
_START = 'exec 3<&0 </dev/null; exec "$@"'
_END = "# slurmgen: the end"
# If the connection is cut within the program, none of it is run.
_READ = (
    'read -r slurmgen_size <&3 && slurmgen_program=$(head -c "$slurmgen_size" <&3) && '
    f'case $slurmgen_program in *"{_END}") eval "$slurmgen_program" ;; *) exit 1 ;; esac'
)
_MARK = "slurmgen answers"
_MOST = 500_000
"Texts of an answer."


_MAIN = 'main "$@"'
_SHARED = ("folders",)
_USED = {"close": (*_SHARED, "submit")}
"The files whose functions a program uses."


@cache
def program(name: str) -> str:
    """The text of a program, `name`.sh in this folder, with the functions that it uses before it."""
    folder = Path(__file__).parent
    texts = [(folder / f"{one}.sh").read_text(encoding="ascii") for one in (*_USED.get(name, _SHARED), name)]
    functions = [text.strip().removesuffix(_MAIN) for text in texts[:-1]]
    return "\n".join([*functions, texts[-1].strip()])


def ask(
    far: Transport, name: str, args: Sequence[str], data: bytes | Iterable[bytes] = b"", *, timeout: float
) -> list[str]:
    """Run a program over there, as the person would have it, and give its answer: one text or more.

    Raises:
        CommandFailed: it came to its end without one.
        TimedOut, ConnectionFailed: as Transport.run says.
    """
    completed = far.run(start(far.shell), input=_with_program(name, args, data), timeout=timeout)
    # A profile may print anything before it.
    _, mark, answer = completed.stdout.rpartition(f"\0{_MARK}\0".encode())
    if not mark or not answer.endswith(b"\0") or answer.count(b"\0") > _MOST:
        said = completed.err.strip().splitlines()[-1:] or ["it said nothing"]
        raise CommandFailed(
            f"slurmgen's program on {far.where} ended with exit status {completed.returncode}: {said[0]}",
            "Does a login shell there print an error?",
        )
    return [part.decode(errors="surrogateescape") for part in answer[:-1].split(b"\0")]


def start(shell: tuple[str, str]) -> list[str]:
    """What is run there, whichever the program: it can begin before the program is known."""
    return ["sh", "-c", _START, "slurmgen", *shell, CLEAN, "slurmgen", "sh", "-c", _READ, "slurmgen"]


def _with_program(name: str, args: Sequence[str], data: bytes | Iterable[bytes]) -> Iterator[bytes]:
    text = f"set -- {shlex.join(args)}\n{program(name)}\n{_END}".encode(errors="surrogateescape")
    yield b"%d\n%s" % (len(text), text)
    yield from chunks(data)
