"""Transport: the one seam between slurmgen and a machine that has Slurm.

Behind it are paramiko (`ssh.py`), OpenSSH's own client (`openssh.py`) and this machine itself
(`local.py`). The far side needs a POSIX shell, tar, bash and Slurm. Nothing above this seam knows
which one it speaks to.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Protocol, Self

from msgspec import Struct

from slurmgen.errors import CommandFailed

COMMAND_TIMEOUT = 60.0
"Seconds that an ordinary command may take."
MAX_REPLY = 16_000_000
"Bytes of a command's output that are read, and as many of its errors: squeue's rows of 200,000 jobs."


class TimedOut(CommandFailed):
    """A command gave no answer in time. Whether it took effect is not known."""


class ReplyTooLong(CommandFailed):
    """A command wrote more than `MAX_REPLY` bytes."""


class Completed(Struct, frozen=True):
    """A command that came to its end."""

    returncode: int
    stdout: bytes = b""
    stderr: bytes = b""

    @property
    def out(self) -> str:
        """Standard output as text; a byte that is not UTF-8 becomes a question mark in a box."""
        return self.stdout.decode(errors="replace")

    @property
    def err(self) -> str:
        """Standard error as text."""
        return self.stderr.decode(errors="replace")


class Transport(Protocol):
    """Runs argument vectors on one machine, each from the home folder there."""

    @property
    def where(self) -> str:
        """What to call the machine in a message."""

    @property
    def login(self) -> str:
        """How we came in: a key by its name, or the kind of answer."""

    @property
    def shell(self) -> tuple[str, str]:
        """The bash and its option that give a command what a person has when typing there."""

    def run(self, argv: Sequence[str], *, input: bytes | Iterable[bytes] = b"", timeout: float) -> Completed:  # noqa: A002
        """Run a command to its end, within `timeout` seconds. Any exit status is an answer.

        Raises:
            TimedOut: it took longer.
            ReplyTooLong: it wrote too much.
            ConnectionFailed: the connection broke.
        """

    def stream(self, argv: Sequence[str], *, timeout: float) -> Iterator[bytes]:
        """What a command writes, as it comes; it may be silent for `timeout` seconds.

        Raises:
            TimedOut: it was silent for longer.
            CommandFailed: its exit status was not 0.
            ConnectionFailed: the connection broke.
        """

    def close(self) -> None:
        """End the connection."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Closing:
    """What is closed at the end of the block."""

    def close(self) -> None:
        """Nothing to do, where nothing is open between commands."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def chunks(data: bytes | Iterable[bytes]) -> Iterable[bytes]:
    """Standard input as parts, in whichever way it was given."""
    return [data] if isinstance(data, bytes) else data


class Reply:
    """What a command writes, put together from its parts."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._bytes = bytearray()

    def add(self, part: bytes) -> None:
        """Take one more part.

        Raises:
            ReplyTooLong: that is too much.
        """
        self._bytes += part
        if len(self._bytes) > MAX_REPLY:
            raise ReplyTooLong(
                f"{self._where} sent more than {MAX_REPLY / 1e6:g} MB",
                "Name fewer jobs; or see there what a login shell prints.",
            )

    def __bytes__(self) -> bytes:
        return bytes(self._bytes)


def timed_out(argv: Sequence[str], where: str, seconds: float) -> TimedOut:
    """The error for a command that took longer than `seconds`."""
    return TimedOut(
        f"{command_name(argv)} gave no answer on {where} within {seconds:g} seconds",
        "Try again, or look there whether the machine is overloaded.",
    )


def failed(argv: Sequence[str], where: str, status: int, stderr: bytes) -> CommandFailed:
    """The error for a command that ended with `status`."""
    said = stderr.decode(errors="replace").strip().splitlines()
    last = f": {said[-1]}" if said else ""
    return CommandFailed(f"{command_name(argv)} failed on {where} with exit status {status}{last}")


def command_line(argv: Sequence[str]) -> str:
    """An argument vector for whichever shell a person has over there: a POSIX one, fish, or csh.

    csh alone cannot read a word with a line feed in it.

    >>> print(command_line(["echo", "it's", "${!name}"]))
    echo 'it'"'"'s' '${'\\!'name}'
    """
    # Even between single quotes `!` means something to csh, and a backslash to fish.
    return shlex.join(argv).replace("\\", r"'\\'").replace("!", r"'\!'")


def command_name(argv: Sequence[str]) -> str:
    """The program that a vector is about, seen through the shell around it.

    >>> command_name(["bash", "-lc", 'exec "$@"', "slurmgen", "sbatch", "a.sh"])
    'sbatch'
    """
    in_shell = argv[3:] if argv[1:2] in (["-c"], ["-lc"]) else argv
    return next((word for word in in_shell if word != "slurmgen"), argv[0])
