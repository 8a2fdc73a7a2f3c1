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

A message is the fact with its value, then what to do next. It names fields of the request by `option()`,
which the command line shows as options, and a page as the labels of its form.
"""

from collections.abc import Iterable
from typing import Self

from slurmgen.field_names import fields_in, worded
from slurmgen.hints import Hint, Offer, leave_it_out, offered


class SlurmgenError(Exception):
    """Root of all errors a user can act on; `fact` and `hint` make the message.

    Attributes:
        fields: the fields of the request that it is about, the most important one first.
        offers: changes that correct it.
        marked: the fact and the hint with the marks of the fields that they name.
    """

    exit_code = 2
    offers: tuple[Offer, ...]

    def __init__(self, fact: str, hint: str = "", field: str = "") -> None:
        self.marked = (fact.rstrip("."), hint)
        self.fact, self.hint = map(worded, self.marked)
        self.offers = Hint.offers_of(hint)
        named = (field, *fields_in(fact), *(one.field for one in self.offers), *fields_in(hint))
        self.fields = tuple(dict.fromkeys(filter(None, named)))
        super().__init__(f"{self.fact}. {self.hint}".rstrip())

    def but(self, before: str = "", after: str = "") -> Self:
        """The same error with a text before the fact, and one after the hint."""
        fact, hint = self.marked
        return type(self)(before + fact, Hint(hint, Hint.offers_of(hint)) + after, self.field)

    @property
    def field(self) -> str:
        """The field that it is about; empty if it is about none."""
        return next(iter(self.fields), "")


class RequestError(SlurmgenError):
    """The request is invalid, on this site or on any."""


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


class ConnectionBroke(ConnectionFailed):
    """A connection that was there, or was being made, broke. Another one may not."""


class LoginDropped(ConnectionBroke):
    """The host ended a connection before its first message, as sshd does that has too many new ones."""


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


def contradiction(*options: str, then: str = "Leave one out.") -> RequestError:
    """The error for options of which a request may have one.

    >>> str(contradiction(option("cpus"), option("sbatch", "array")))
    '--cpus and --sbatch array exclude each other. Leave one out.'
    """
    fact = f"{' and '.join(options)} exclude each other"
    alone = [field for field in fields_in(fact) if field != "sbatch"]  # that has other options too
    return RequestError(fact, leave_it_out(*alone, text=then))


def did_you_mean(word: str, known: Iterable[str], field: str = "") -> Hint:
    """A hint with the known word that is most similar, and with all of them if they are few.

    Args:
        word: the unknown word.
        known: the known ones.
        field: the field of the request with the word, for which the hint offers the others.

    >>> did_you_mean("DAIK", ["daic", "olivia"])
    'Did you mean daic? Known: daic, olivia.'
    """
    names = sorted(known)
    close = closest(word, names)
    guess = f"Did you mean {close}?" if close else ""
    few = f"Known: {', '.join(names) or 'none'}." if not guess or len(names) <= _FEW else ""
    text = f"{guess} {few}".strip()
    return Hint(text, offered(field, *(names if few else [str(close)])) if field else ())


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
