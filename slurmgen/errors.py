"""Everything that can go wrong, in one tree.

    SlurmgenError                 exit code 2 unless said otherwise
    ├── RequestError              what was asked for cannot be had
    ├── ConfigError               a profile, slurmgen.toml or personal file is wrong
    ├── TwinError                 the twin could not be started or found (3)
    └── RemoteError               the far side failed (3)
        ├── ConnectionFailed      no connection, or it broke
        ├── HostKeyError          the host's key is unknown or has changed
        ├── AuthenticationFailed  the host let nobody in
        ├── CommandFailed         a command over there answered with an error
        ├── TransferFailed        a file could not be sent or fetched
        ├── Unresolved            whether there is a job is not known
        └── Interrupted           ^C came while it mattered (130)

A message is the fact with its value, then what to do next.
"""

from collections.abc import Iterable


class SlurmgenError(Exception):
    """Root of all errors a user can act on; `fact` and `hint` make the message."""

    exit_code = 2

    def __init__(self, fact: str, hint: str = "") -> None:
        self.fact = fact.rstrip(".")
        self.hint = hint
        super().__init__(f"{self.fact}. {hint}".rstrip())


class RequestError(SlurmgenError):
    """What was asked for cannot be had, on this site or at all."""


class ConfigError(SlurmgenError):
    """A profile, slurmgen.toml or the personal file is wrong."""


class TwinError(SlurmgenError):
    """The twin could not be started, or there is none."""

    exit_code = 3


class RemoteError(SlurmgenError):
    """The remote host failed. The message may quote it, so a long one is cut."""

    exit_code = 3

    def __init__(self, fact: str, hint: str = "") -> None:
        super().__init__(shortened(fact), shortened(hint))


class ConnectionFailed(RemoteError):
    """There is no connection to the host, or it broke."""


class HostKeyError(RemoteError):
    """The host's key is unknown, or is not the one we know."""


class AuthenticationFailed(RemoteError):
    """The host let nobody in."""


class CommandFailed(RemoteError):
    """A command on the far side answered with an error."""


class TransferFailed(RemoteError):
    """A file could not be sent or fetched."""


class Unresolved(RemoteError):
    """Whether there is a job is not known; the same command again finds out."""


class Interrupted(RemoteError):
    """^C came while the far side was deciding."""

    exit_code = 130


def shortened(text: str, most: int = 1000) -> str:
    """A text of at most so many characters, as much of its end as of its beginning.

    >>> shortened("0123456789", 7)
    '01 … 89'
    """
    half = (most - 3) // 2
    return text if len(text) <= most else f"{text[:half]} … {text[-half:]}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint that names the nearest of the known words, and all of them if they are few.

    >>> did_you_mean("DAIK", ["daic", "olivia"])
    'Did you mean daic? Known: daic, olivia.'
    """
    from difflib import get_close_matches  # only an error needs it

    names = sorted(known)
    by_lower = {name.lower(): name for name in names}
    close = get_close_matches(word.lower(), by_lower, n=1)
    guess = f"Did you mean {by_lower[close[0]]}?" if close else ""
    few = f"Known: {', '.join(names) or 'none'}." if not guess or len(names) <= _FEW else ""
    return f"{guess} {few}".strip()


_FEW = 8
