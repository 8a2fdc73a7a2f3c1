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
from collections.abc import Iterable, Iterator, Sequence

from slurmgen.errors import CommandFailed, TransferFailed
from slurmgen.remote.transport import (
    MAX_REPLY,
    PART,
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
_TURN = 0.05
"Seconds until it is noticed that a command that reads no more input has ended."
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
        argv: Sequence[str],
        data: bytes | Iterable[bytes] = b"",
    ) -> None:
        self._where, self._data = where, data
        self._mark = f"slurmgen-{secrets.token_hex(16)}"
        self.argv = _framed(argv, shell, self._mark, has_input=data != b"")
        "The command with its frame."
        self.out, self.err = Output(where, self._mark), Output(where, self._mark, "errors begin")
        self._texts = {self.out: bytearray(), self.err: bytearray()}
        self._decided = threading.Event()
        self.is_given_up = False

    def add(self, output: Output, part: bytes) -> None:
        """Keep what arrives on one stream.

        Raises:
            ReplyTooLong: the command writes more than `MAX_REPLY` bytes.
            NotStarted: login files do.
        """
        known = output.add(part)
        if output is self.out and output.has_begun:
            self._decided.set()
        self._take(output, known)

    def _take(self, output: Output, known: bytes) -> None:
        text = self._texts[output]
        text += known
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
        if self._data != b"":
            yield _LINE_FEEDS
            self._decided.wait()
            if self.out.has_begun:
                yield f"{self._mark}\n".encode()
                yield from chunks(self._data)

    @property
    def is_over(self) -> bool:
        """Whether all output has arrived; login files may keep the streams open."""
        return self.out.status is not None and self.err.status is not None

    @property
    def completed(self) -> Completed | None:
        """The command as it ended; None if its end was not received."""
        if self.out.status is None:
            return None
        return Completed(self.out.status, bytes(self._texts[self.out]), self.stderr)

    @property
    def stderr(self) -> bytes:
        """Standard error so far."""
        return bytes(self._texts[self.err])

    def timed_out(self, argv: Sequence[str], seconds: float) -> CommandFailed:
        """The error for a command that took longer than `seconds`, or did not begin in that time."""
        if self.out.has_begun:
            return timed_out(argv, self._where, seconds)
        late = self.not_started(f"did not finish within {min(seconds, BEGIN_TIMEOUT):g} seconds")
        return NotStartedInTime(late.fact, f"It may be too busy: try again. {late.hint}")

    def unfinished(self, argv: Sequence[str], status: int) -> CommandFailed:
        """The error for a command that ended without the mark at its end, though the connection is open."""
        if self.out.has_begun:
            return ended_by_signal(argv, self._where)
        how = f" with exit status {status}" if status >= 0 else ""
        return self.not_started(f"ended the shell{how}")

    def check(self, argv: Sequence[str], status: int) -> None:
        """Raise the error of a stream that has ended, if its command failed."""
        if self.out.status is None:
            raise self.unfinished(argv, status)
        if self.out.status:
            raise failed(argv, self._where, self.out.status, self.stderr)

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

    def __init__(self, where: str, shell: tuple[str, str], argv: Sequence[str]) -> None:
        super().__init__(where, shell, argv, self._typed())

    def _take(self, output: Output, known: bytes) -> None:
        stream = (sys.stdout if output is self.out else sys.stderr).buffer
        stream.write(known)
        stream.flush()

    def _typed(self) -> Iterator[bytes]:
        """Standard input, as it arrives, as long as the command runs."""
        with contextlib.suppress(OSError, ValueError):  # stdin is closed
            source = sys.stdin.fileno()
            while not (self.is_over or self.is_given_up):
                if select.select([source], [], [], _TURN)[0]:
                    if not (part := os.read(source, PART)):
                        return
                    yield part


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
