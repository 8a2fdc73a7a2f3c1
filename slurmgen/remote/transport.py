"""Run commands on a host, whatever the way to it."""

import contextlib
import shlex
import socket
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from msgspec import Struct

from slurmgen.errors import CommandFailed

PART = 65536
_END_TIMEOUT = 5.0


class Duplex(Protocol):
    """Bytes in both directions. All methods but `write` may be called from another thread."""

    def read(self) -> bytes:
        """The next part; empty at the end, or if the connection broke."""

    def write(self, part: bytes) -> None:
        """Send a part.

        Raises:
            OSError: the other side is gone.
        """

    def end(self) -> None:
        """Send no more."""

    def close(self) -> None:
        """End both directions."""


class Socket:
    """A connection of this machine, or a channel, which has the methods of a socket."""

    broken: tuple[type[Exception], ...] = (OSError,)
    "What is raised by a connection that has ended."

    def __init__(self, connection: Any) -> None:
        self._socket = connection
        connection.settimeout(None)

    def read(self) -> bytes:
        """See Duplex."""
        try:
            return bytes(self._socket.recv(PART))
        except self.broken:
            return b""

    def write(self, part: bytes) -> None:
        """See Duplex."""
        self._socket.sendall(part)

    def end(self) -> None:
        """See Duplex."""
        with contextlib.suppress(*self.broken):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """See Duplex."""
        with contextlib.suppress(*self.broken):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(*self.broken):
            self._socket.close()


class Program:
    """The standard streams of a program on this machine, such as ssh."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def ends_within(self, seconds: float) -> bool:
        """Whether the program ends by itself in that time."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def read(self) -> bytes:
        """See Duplex."""
        assert self._process.stdout  # noqa: S101 (it is a pipe)
        try:
            return self._process.stdout.read1(PART)  # type: ignore[attr-defined,no-any-return]
        except (OSError, ValueError):
            return b""

    def write(self, part: bytes) -> None:
        """See Duplex."""
        assert self._process.stdin  # noqa: S101 (it is a pipe)
        self._process.stdin.write(part)
        self._process.stdin.flush()

    def end(self) -> None:
        """See Duplex."""
        assert self._process.stdin  # noqa: S101 (it is a pipe)
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.close()

    def close(self) -> None:
        """See Duplex."""
        self.end()
        self._process.terminate()
        try:
            self._process.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout  # noqa: S101 (it is a pipe)
        self._process.stdout.close()


def program(argv: list[str], environment: dict[str, str] | None = None) -> Program:
    """Start a program in a session of its own, so that ^C does not reach it."""
    return Program(
        subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    )


COMMAND_TIMEOUT = 60.0
"Seconds that an ordinary command may take."
NO_LIMIT = 2_000_000.0
"Seconds, about the most that select takes."
MAX_REPLY = 16_000_000
"Bytes of standard output that are read, and as many of standard error: squeue's rows of 200,000 jobs."

MAX_WORDS = 60_000
"""Bytes of a list of ids or paths in one command. A login shell gets its command line as one word, for which
Linux allows 131,072 bytes; quotes are added to the words."""


class TimedOut(CommandFailed):
    """A command did not finish in time. Whether it took effect is not known."""


class ReplyTooLong(CommandFailed):
    """A command wrote more than `MAX_REPLY` bytes."""


class Completed(Struct, frozen=True):
    """A command that has ended."""

    returncode: int
    stdout: bytes = b""
    stderr: bytes = b""

    @property
    def out(self) -> str:
        """Standard output as text; a byte that is not UTF-8 becomes U+FFFD."""
        return self.stdout.decode(errors="replace")

    @property
    def err(self) -> str:
        """Standard error as text."""
        return self.stderr.decode(errors="replace")


class Transport(Protocol):
    """Runs argument vectors on one machine, each in the home folder."""

    @property
    def where(self) -> str:
        """The name of the machine in a message."""

    @property
    def login(self) -> str:
        """How the login succeeded: the name of a key, or the authentication method."""

    @property
    def shell(self) -> tuple[str, str]:
        """The bash and its option that give a command the environment of an interactive login."""

    def run(self, argv: Sequence[str], *, input: bytes | Iterable[bytes] = b"", timeout: float) -> Completed:  # noqa: A002
        """Run a command to its end, within `timeout` seconds. No exit status is an error.

        Raises:
            TimedOut: it took longer.
            ReplyTooLong: it wrote too much.
            ConnectionFailed: the connection broke.
        """

    def stream(self, argv: Sequence[str], *, timeout: float) -> Iterator[bytes]:
        """Yield what a command writes to standard output, as it arrives.

        Raises:
            TimedOut: nothing arrived on standard output for `timeout` seconds.
            ReplyTooLong: it wrote too much to standard error.
            CommandFailed: its exit status was not 0.
            ConnectionFailed: the connection broke.
        """

    def attach(self, argv: Sequence[str], *, terminal: bool) -> int:
        """Run a command with the standard streams of this process; returns its exit status.

        With `terminal`, which standard input is, the command gets one; what login files print is then shown.

        Raises:
            CommandFailed: it did not begin, or was ended by a signal.
            ConnectionFailed: the connection broke.
        """

    def dial(self, host: str, port: int) -> Duplex:
        """Connect to a port that the machine can reach.

        Raises:
            CommandFailed: it cannot.
            ConnectionFailed: the connection broke.
        """

    def pipe(self, argv: Sequence[str]) -> Duplex:
        """Start a command, with its standard input and output as one stream; its errors are discarded.

        Raises:
            ConnectionFailed: the connection broke.
        """

    def close(self) -> None:
        """End the connection."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Closing:
    """A transport that is closed at the end of its block."""

    def close(self) -> None:
        """Do nothing: no connection is open between commands."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def chunks(data: bytes | Iterable[bytes]) -> Iterable[bytes]:
    """Standard input as parts."""
    return [data] if isinstance(data, bytes) else data


def batches(words: Sequence[str], most: int = MAX_WORDS) -> Iterator[Sequence[str]]:
    """Parts of a list of words, each of which one command can take: at most `most` bytes.

    >>> list(batches(["12", "345", "6"], most=12))
    [['12', '345'], ['6']]
    """
    start, size = 0, 0
    for number, word in enumerate(words):
        length = len(word.encode()) + len("' '")
        if number > start and size + length > most:
            yield words[start:number]
            start, size = number, 0
        size += length
    if start < len(words):
        yield words[start:]


def timed_out(argv: Sequence[str], where: str, seconds: float) -> TimedOut:
    """The error for a command that took longer than `seconds`."""
    return TimedOut(
        f"{command_name(argv)} did not finish on {where} within {seconds:g} seconds",
        "Try again, or check whether that machine is overloaded.",
    )


def ended_by_signal(argv: Sequence[str], where: str) -> CommandFailed:
    """The error for a command that ended without an exit status, though the connection is open."""
    return CommandFailed(
        f"{command_name(argv)} was ended by a signal on {where}", "Check whether it ran out of memory."
    )


def unreachable(host: str, port: int, where: str, why: object) -> CommandFailed:
    """The error for a port that a machine does not reach."""
    return CommandFailed(
        f"{where} cannot connect to port {port} of {host}: {why}", "Does the program listen?"
    )


def failed(argv: Sequence[str], where: str, status: int, stderr: bytes) -> CommandFailed:
    """The error for a command that ended with `status`."""
    lines = stderr.decode(errors="replace").strip().splitlines()
    last = f": {lines[-1]}" if lines else ""
    return CommandFailed(f"{command_name(argv)} failed on {where} with exit status {status}{last}")


def command_line(argv: Sequence[str]) -> str:
    """An argument vector as one line for any login shell: a POSIX one, fish, or csh.

    Only csh cannot read a word with a line feed in it.

    >>> print(command_line(["echo", "it's", "${!name}"]))
    echo 'it'"'"'s' '${'\\!'name}'
    """
    # Even between single quotes `!` means something to csh, and a backslash to fish.
    return shlex.join(argv).replace("\\", r"'\\'").replace("!", r"'\!'")


def command_name(argv: Sequence[str]) -> str:
    """The program that a vector runs, without the shell around it.

    >>> command_name(["bash", "-lc", 'exec "$@"', "slurmgen", "sbatch", "a.sh"])
    'sbatch'
    """
    in_shell = argv[3:] if argv[1:2] in (["-c"], ["-lc"]) else argv
    return next((word for word in in_shell if word != "slurmgen"), argv[0])
