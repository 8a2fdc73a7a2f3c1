"""The errors that slurmgen raises, with the exit codes of the command line.

    SlurmgenError                 2 unless noted
    ├── RequestError              the request is invalid, on this site or on any
    │   ├── LimitExceeded         the site allows no job of that size
    │   └── UnknownJob            slurmgen.toml has no such job
    ├── ConfigError               a profile, slurmgen.toml or personal.toml is wrong
    ├── TwinError                 the twin could not be started or found (3)
    └── RemoteError               the remote host failed (3)
        ├── ConnectionFailed      there is no connection, or it broke
        ├── HostKeyError          the host key is unknown or has changed
        ├── AuthenticationFailed  the host refused the login
        ├── CommandFailed         a remote command failed
        ├── TransferFailed        a file could not be sent or fetched
        ├── Unresolved            it is not known whether there is a job
        └── Interrupted           ^C before it was known whether there is a job (130)

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
    """The request is invalid, on this site or on any; `field` is the one with the wrong value, if any."""

    def __init__(self, fact: str, hint: str = "", field: str = "") -> None:
        super().__init__(fact, hint)
        self.field = field


class UnknownJob(RequestError):
    """slurmgen.toml has no such job."""


class LimitExceeded(RequestError):
    """The site allows no job of that size."""


class ConfigError(SlurmgenError):
    """A profile, slurmgen.toml or personal.toml is wrong."""


class TwinError(SlurmgenError):
    """The twin could not be started or found."""

    exit_code = 3


class RemoteError(SlurmgenError):
    """The remote host failed. The message may quote it, so a long one is cut."""

    exit_code = 3

    def __init__(self, fact: str, hint: str = "") -> None:
        super().__init__(shortened(fact), shortened(hint))


class ConnectionFailed(RemoteError):
    """There is no connection to the host, or it broke."""


class HostKeyError(RemoteError):
    """The host key is unknown or has changed."""


class AuthenticationFailed(RemoteError):
    """The host refused the login."""


class CommandFailed(RemoteError):
    """A remote command failed."""


class TransferFailed(RemoteError):
    """A file could not be sent or fetched."""


class Unresolved(RemoteError):
    """It is not known whether there is a job; the same command or call finds out."""


class Interrupted(RemoteError):
    """^C came before it was known whether there is a job."""

    exit_code = 130


def shortened(text: str, most: int = 1000) -> str:
    """Cut a text to `most` characters: its beginning and as much of its end.

    >>> shortened("0123456789", 7)
    '01 … 89'
    """
    half = (most - 3) // 2
    return text if len(text) <= most else f"{text[:half]} … {text[-half:]}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint with the known word that is most similar, and with all of them if they are few.

    >>> did_you_mean("DAIK", ["daic", "olivia"])
    'Did you mean daic? Known: daic, olivia.'
    """
    names = sorted(known)
    close = closest(word, names)
    guess = f"Did you mean {close}?" if close else ""
    few = f"Known: {', '.join(names) or 'none'}." if not guess or len(names) <= _FEW else ""
    return f"{guess} {few}".strip()


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most similar, whatever its case; None if none is similar.

    >>> closest("DAIK", ["daic", "olivia"]), closest("daic", ["olivia"])
    ('daic', None)
    """
    from difflib import get_close_matches  # only an error needs it

    by_lower = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), by_lower, n=1)
    return by_lower[close[0]] if close else None


_FEW = 8
