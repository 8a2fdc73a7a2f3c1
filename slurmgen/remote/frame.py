"""Frame: a command between two marks, which separate its output from what login files print.

A login shell reads login files before each command, and they may print anything, end the shell, or read
standard input. So a command begins with a mark on standard output and one on standard error, after all login
files; its input is sent when the first mark has arrived. A mark with the exit status follows its output.
The mark is new for each command, and the command line does not contain it as a whole: a login file may
print that too.
"""

import contextlib
import os
import re
import secrets
import select
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

from slurmgen.errors import CommandFailed, RemoteError, TransferFailed
from slurmgen.remote.transport import (
    MAX_REPLY,
    PART,
    Closing,
    Completed,
    Duplex,
    ReplyTooLong,
    TimedOut,
    chunks,
    ended_by_signal,
    failed,
    timed_out,
)

BEGIN_TIMEOUT = 60.0
"Seconds until a command must begin; a submission may then take minutes."
END_TIMEOUT = 1.0
"Seconds until a shell ends whose command has ended; its login files may have started what does not."
_TURN = 0.05
"Seconds until it is noticed that a command that reads no more input has ended."
_TURN_OF_INPUT = 0.5
"Seconds until it is noticed that the input has failed."
_SHOWN = 4096
"Bytes of what login files print that are kept for an error."
# A login file may read a line or some: it gets these, not the input of the command.
_LINE_FEEDS = b"\n" * 64
# A dash would drop the variables whose names are not those of a shell, such as BASH_FUNC_module%%. Without
# --norc, each bash that replaces the shell of sshd reads ~/.bashrc again, which may take seconds.
_BASH = ("bash", "--norc", "--posix", "-p", "-c")
# Login files get no input, and may redirect output; none of them uses the descriptors 97 to 99.
_BEFORE_LOGIN = (
    'slurmgen_mark={mark}; echo "$slurmgen_mark shell=$SHELL "; exec 97<&0 98>&1 99>&2 </dev/null; exec "$@"'
)
# What login files may have set, and what would change the frame or print within it. `builtin`, because they
# define functions too.
_RESET = (
    "builtin trap - DEBUG ERR RETURN EXIT; builtin set +aCefuvx; builtin unalias -a; builtin unset -f cd "
    "command echo eval exec exit printf read set shift test trap unset; builtin unset IFS; "
    r"\exec <&97 >&98 2>&99 97<&- 98>&- 99>&-; "
)
_BEGIN = (
    'builtin cd; slurmgen_mark={mark}; builtin echo "$slurmgen_mark errors begin" >&2; '
    'builtin echo "$slurmgen_mark begin"; '
)
_SKIP = (
    'slurmgen_line=; until [[ $slurmgen_line == "$slurmgen_mark" ]]; do '
    "builtin read -r slurmgen_line || builtin exit 97; done; "
)
_END = (
    'builtin printf -v slurmgen_line "%s end%03d" "$slurmgen_mark" "$?"; '
    'builtin echo "$slurmgen_line"; builtin echo "$slurmgen_line" >&2'
)
_IN_LOGIN = 'slurmgen_script=$1; builtin shift; (builtin eval "$slurmgen_script"); '

_OF_BASH = "/etc/profile, ~/.bash_profile, ~/.bash_login, ~/.profile and ~/.bashrc"
_OF_ANY = (
    "~/.bashrc of bash, ~/.zshenv of zsh, ~/.tcshrc or ~/.cshrc of tcsh, ~/.config/fish/config.fish of fish"
)


class NotStarted(TransferFailed, CommandFailed):
    """The login files of the host let no command begin. None has run that has input, such as a submission."""


class NotStartedInTime(NotStarted, TimedOut):
    """Nor did they end in time. The host may only be too busy."""


class Output:
    """One stream of a command: of what arrives, the part between the marks."""

    def __init__(self, where: str, mark: str, begin: str = "begin") -> None:
        self._where = where
        # If a login file joins the streams, the mark of errors comes before that of the output.
        self._begin, self._end = f"{mark} {begin}\n".encode(), f"{mark} end".encode()
        self._held = bytearray()
        self._noise = 0
        self.has_begun = False
        self.status: int | None = None
        "The exit status of the command, once all of its output has arrived."

    def add(self, part: bytes) -> bytes:
        """The output of the command that is known with this part.

        Raises:
            NotStarted: login files print more than `MAX_REPLY` bytes.
        """
        if self.status is not None:
            return b""
        self._held += part
        if not self.has_begun and not self._has_begun_now(len(part)):
            return b""
        return self._until_end()

    @property
    def noise(self) -> str:
        """The end of what arrived before the mark."""
        return "" if self.has_begun else self._held.decode(errors="replace")

    def _has_begun_now(self, more: int) -> bool:
        place = self._held.find(self._begin)
        self.has_begun = place >= 0
        if self.has_begun:
            del self._held[: place + len(self._begin)]
            return True
        self._noise += more
        if self._noise > MAX_REPLY:
            raise NotStarted(
                f"the login files of {self._where} print more than {MAX_REPLY / 1e6:g} MB", _hint("")
            )
        del self._held[:-_SHOWN]
        return False

    def _until_end(self) -> bytes:
        """What is held, without the mark at its end, even if only a part of the mark has arrived."""
        place = self._held.find(self._end)
        digits = bytes(self._held[place + len(self._end) :][:3]) if place >= 0 else b""
        if len(digits) == 3:
            self.status = int(digits) if re.fullmatch(rb"[0-9]{3}", digits) else 255
        if place < 0:
            ends = range(min(len(self._end), len(self._held)), 0, -1)
            kept = next((size for size in ends if self._end.startswith(self._held[-size:])), 0)
            place = len(self._held) - kept
        known = bytes(self._held[:place])
        del self._held[:place]
        return known


class Frame:
    """One command, and what arrives from it."""

    def __init__(
        self,
        where: str,
        shell: tuple[str, str],
        command: Sequence[str],
        data: bytes | Iterable[bytes] = b"",
    ) -> None:
        self._where, self.command, self._data = where, command, data
        self._mark = f"slurmgen-{secrets.token_hex(16)}"
        self.has_input = data != b""
        self.argv = _framed(command, shell, self._mark, has_input=self.has_input)
        "The command with its frame."
        self.out, self.err = Output(where, self._mark), Output(where, self._mark, "errors begin")
        self.stderr = bytearray()
        self._decided = threading.Event()
        self.is_given_up = False

    def add(self, part: bytes, *, is_error: bool = False) -> bytes:
        """The output that is known with this part of it; errors are kept, and nothing is returned.

        Raises:
            ReplyTooLong: the command writes more than `MAX_REPLY` bytes of errors.
            NotStarted: login files do.
        """
        if is_error:
            self.keep(self.stderr, self.err.add(part))
            return b""
        known = self.out.add(part)
        if self.out.has_begun:
            self._decided.set()
        return known

    def keep(self, text: bytearray, part: bytes) -> None:
        """Add to a text that is not too long."""
        text += part
        if len(text) > MAX_REPLY:
            raise ReplyTooLong(
                f"{self._where} sent more than {MAX_REPLY / 1e6:g} MB",
                "Name fewer jobs, or check what a login shell prints on that host.",
            )

    def give_up(self) -> None:
        """No more arrives: send no input if the command has not begun."""
        self.is_given_up = True
        self._decided.set()

    def input(self) -> Iterator[bytes]:
        """Standard input: what login files may read, and when the command has begun, its own."""
        yield _LINE_FEEDS
        self._decided.wait()
        if self.out.has_begun:
            yield f"{self._mark}\n".encode()
            yield from chunks(self._data)

    @property
    def is_over(self) -> bool:
        """Whether all output has arrived; login files may keep the streams open."""
        return self.out.status is not None and self.err.status is not None

    def timed_out(self, seconds: float) -> CommandFailed:
        """The error for a command that took longer than `seconds`, or did not begin in that time."""
        if self.out.has_begun:
            return timed_out(self.command, self._where, seconds)
        late = self.not_started(f"did not finish within {min(seconds, BEGIN_TIMEOUT):g} seconds")
        return NotStartedInTime(late.fact, f"It may be too busy: try again. {late.hint}")

    def unfinished(self, status: int) -> CommandFailed:
        """The error for a command that ended without the mark at its end, though the connection is open."""
        if self.out.has_begun:
            return ended_by_signal(self.command, self._where)
        how = f" with exit status {status}" if status >= 0 else ""
        return self.not_started(f"ended the shell{how}")

    def check(self) -> None:
        """Raise the error of a command that failed."""
        if self.out.status:
            raise failed(self.command, self._where, self.out.status, bytes(self.stderr))

    def not_started(self, why: str) -> NotStarted:
        """The error if the first mark has not arrived."""
        in_login = f"{self._mark} shell=" in self.out.noise
        lines = [line.strip() for line in self.err.noise.splitlines() if line.strip()]
        last = f": {lines[-1]}" if lines else ""
        return NotStarted(
            f"{self._where} began no command: its login files {why}{last}",
            _hint(_OF_BASH if in_login else _OF_ANY),
        )


class Attached(Frame):
    """A command with the standard streams of this process, without what login files print."""

    def __init__(self, where: str, shell: tuple[str, str], command: Sequence[str]) -> None:
        super().__init__(where, shell, command, self._typed())

    def add(self, part: bytes, *, is_error: bool = False) -> bytes:
        """Write what is known to the same stream of this process."""
        known = self.err.add(part) if is_error else super().add(part)
        stream = (sys.stderr if is_error else sys.stdout).buffer
        stream.write(known)
        stream.flush()
        return b""

    def _typed(self) -> Iterator[bytes]:
        """Standard input, as it arrives, as long as the command runs."""
        with contextlib.suppress(OSError, ValueError):  # stdin is closed
            source = sys.stdin.fileno()
            while not (self.is_over or self.is_given_up):
                if select.select([source], [], [], _TURN)[0]:
                    if not (part := os.read(source, PART)):
                        return
                    yield part


class Session(Protocol):
    """A program with three streams, on this machine or over a connection."""

    def receive(self, seconds: float) -> list[tuple[bool, bytes]]:
        """What arrives within that time: parts, each with whether it is of standard error.

        An empty part ends its stream. Without any part, the time has passed.
        """

    def send(self, part: bytes) -> None:
        """Write to standard input.

        Raises:
            OSError, EOFError: the program has ended, or the connection is broken.
        """

    def end_input(self) -> None:
        """Send no more."""

    def status(self, seconds: float) -> int | None:
        """The exit status, negative without one; None if the program does not end within that time."""

    def close(self) -> None:
        """End the program, and with it every `send`."""


class Running:
    """A command that runs in a session. Iterated over, its output as it arrives.

    Args:
        timeout: seconds for the whole command; for one that `flows`, for each part of its output.
    """

    def __init__(self, frame: Frame, session: Session, timeout: float, *, flows: bool) -> None:
        self.frame, self.session, self._timeout, self._flows = frame, session, timeout, flows
        now = time.monotonic()
        self._latest, self._deadline = now + min(timeout, BEGIN_TIMEOUT), now + timeout
        self._first = b""
        self._open = {False, True}
        # A thread writes the input as it is made: a whole project as a file would take space and time.
        self._pool = ThreadPoolExecutor(1)
        self._feeding = self._pool.submit(self._feed) if frame.has_input else None
        if not self._feeding:
            session.end_input()

    def begin(self) -> None:
        """Wait until the command begins, or ends."""
        while self._open and not self.frame.out.has_begun:
            self._first = self._receive()

    def __iter__(self) -> Iterator[bytes]:
        if self._first:
            yield self._first
        while self._open and not self.frame.is_over:
            if known := self._receive():
                yield known

    def status(self) -> int:
        """The exit status of a session whose output has ended.

        Raises:
            TimeoutError: it does not end, and its command has not.
            Exception: that of the input.
        """
        has_ended = self.frame.out.status is not None
        left = END_TIMEOUT if has_ended else max(0.0, self._deadline - time.monotonic())
        status = self.session.status(left)
        if status is None and not has_ended:
            raise TimeoutError
        self.frame.give_up()
        self._check_input(is_over=True)
        return status or 0

    def close(self) -> None:
        """End the command if it has not ended."""
        self.frame.give_up()
        self.session.close()
        self._pool.shutdown()

    def _receive(self) -> bytes:
        frame = self.frame
        end = self._deadline if frame.out.has_begun else self._latest
        while not (parts := self.session.receive(self._until(end))):
            self._check_input()
            if time.monotonic() >= end:
                raise TimeoutError
        known = b""
        for is_error, part in parts:
            if not part:
                self._open.discard(is_error)
                continue
            known += frame.add(part, is_error=is_error)
            if self._flows and frame.out.has_begun and not is_error:
                self._deadline = time.monotonic() + self._timeout
        return known

    def _until(self, end: float) -> float:
        left = max(0.0, end - time.monotonic())
        return min(left, _TURN_OF_INPUT) if self._feeding else left

    def _check_input(self, *, is_over: bool = False) -> None:
        """Raise the error of the input, if it has failed: the command must not use a part of it."""
        if self._feeding and (is_over or self._feeding.done()):
            self._feeding.result()

    def _feed(self) -> None:
        for part in self.frame.input():
            try:
                self.session.send(part)
            except (OSError, EOFError):  # it ended without reading all; its exit status reports why
                break
        self.session.end_input()


class FramedTransport(Closing):
    """A transport whose commands have frames."""

    where: str
    shell: tuple[str, str]

    def run(self, argv: Sequence[str], *, input: bytes | Iterable[bytes] = b"", timeout: float) -> Completed:  # noqa: A002
        """See Transport.run."""
        return self.completed(partial(Frame, self.where, self.shell, argv, input), timeout, timeout)

    def stream(self, argv: Sequence[str], *, timeout: float) -> Iterator[bytes]:
        """See Transport.stream."""
        with self._in_time(partial(Frame, self.where, self.shell, argv), timeout, timeout, flows=True) as one:
            yield from one
            self._check_end(one)
            one.frame.check()

    def completed(self, framed: Callable[[], Frame], timeout: float, patience: float) -> Completed:
        """A command that has ended; `patience` is the time to open a session for it."""
        stdout = bytearray()
        with self._in_time(framed, timeout, patience, flows=False) as one:
            for part in one:
                one.frame.keep(stdout, part)
            status = self._check_end(one)
        return Completed(status, bytes(stdout), bytes(one.frame.stderr))

    def running(
        self, framed: Callable[[], Frame], timeout: float, patience: float, *, flows: bool
    ) -> Running:
        """Start a command; each attempt has a frame of its own."""
        raise NotImplementedError

    def late(self, frame: Frame, timeout: float) -> RemoteError:
        """The error for a command that takes longer than `timeout` seconds."""
        return frame.timed_out(timeout)

    def unfinished(self, one: Running, status: int) -> RemoteError:
        """The error for a command that ended without the mark at its end."""
        return one.frame.unfinished(status)

    @contextlib.contextmanager
    def _in_time(
        self, framed: Callable[[], Frame], timeout: float, patience: float, *, flows: bool
    ) -> Iterator[Running]:
        with contextlib.closing(self.running(framed, timeout, patience, flows=flows)) as one:
            try:
                yield one
            except TimeoutError:
                raise self.late(one.frame, timeout) from None

    def _check_end(self, one: Running) -> int:
        """The exit status of a command."""
        status = one.status()
        if one.frame.out.status is None:
            raise self.unfinished(one, status)
        return one.frame.out.status


class Framed:
    """A command's input and output as one stream, without its frame."""

    def __init__(self, stream: Duplex, frame: Frame) -> None:
        self._stream, self._frame = stream, frame
        self._first = b""
        self.write, self.end, self.close = stream.write, stream.end, stream.close

    def begins(self) -> bool:
        """Wait until the command has begun; whether it has."""
        while not self._frame.out.has_begun and (part := self._stream.read()):
            self._first = self._frame.out.add(part)
        return self._frame.out.has_begun

    def read(self) -> bytes:
        """See Duplex; raises NotStarted if the command does not begin."""
        if first := self._first:
            self._first = b""
            return first
        while self._frame.out.status is None and (part := self._stream.read()):
            if known := self._frame.out.add(part):
                return known
        if not self._frame.out.has_begun:
            raise self._frame.not_started("ended the shell")
        return b""


def _hint(files: str) -> str:
    return (
        f"Look for `exit`, `exec`, a question or an endless command in {files or _OF_ANY}: they should do "
        "such things in interactive shells only."
    )


def login_script(argv: Sequence[str], shell: tuple[str, str]) -> int:
    """The place of the script that a login shell runs, in an argument vector; 0 if there is none.

    >>> login_script(["bash", "-lc", "exec squeue"], ("bash", "-lc"))
    2
    """
    return next((at + 2 for at in range(len(argv) - 2) if tuple(argv[at : at + 2]) == shell), 0)


def _framed(argv: Sequence[str], shell: tuple[str, str], mark: str, *, has_input: bool) -> list[str]:
    """An argument vector with its frame, which begins after the login files of a shell within it."""
    begin = _BEGIN.format(mark=mark) + (_SKIP if has_input else "")
    place = login_script(argv, shell)
    if not place:
        return [*_BASH, f'{begin}"$@"; {_END}', "slurmgen", *argv]
    name, *words = argv[place + 1 :] or ["slurmgen"]
    inner = [f"{_RESET}{begin}{_IN_LOGIN}{_END}", name, argv[place], *words]
    return [*_BASH, _BEFORE_LOGIN.format(mark=mark), "slurmgen", *argv[:place], *inner]
