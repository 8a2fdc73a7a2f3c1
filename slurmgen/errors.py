"""Errors, their exit codes, and the hints and names in their messages."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Self

MOST = 8
"Offers of a hint."


class Offer(NamedTuple):
    """A change of a request.

    A field that holds several values gets this one too. A variable that becomes a secret leaves `env`.
    """

    field: str
    value: str
    "As a user types it; empty to clear the field."


class Hint(str):
    """The text of a hint, with its offers. A text that is made of it has none, unless it is joined by +."""

    offers: tuple[Offer, ...]

    def __new__(cls, text: str, offers: tuple[Offer, ...] = ()) -> "Hint":
        """Keep at most `MOST` of the offers."""
        made = super().__new__(cls, text)
        made.offers = tuple(dict.fromkeys(offers))[:MOST]
        return made

    def __add__(self, text: str) -> "Hint":
        return Hint(str(self) + str(text), (*self.offers, *Hint.offers_of(text)))

    @staticmethod
    def offers_of(text: str) -> tuple[Offer, ...]:
        """The offers of a text, if it is a hint with some."""
        return text.offers if isinstance(text, Hint) else ()


def offered(field: str, *values: object) -> tuple[Offer, ...]:
    """An offer of each value for a field."""
    return tuple([Offer(field, str(value)) for value in values])


def cleared(*fields: str) -> tuple[Offer, ...]:
    """An offer to clear each field."""
    return tuple([Offer(field, "") for field in fields])


def ask_for(field: str, *values: object, bound: str = "") -> Hint:
    """The hint to ask for one of some values.

    >>> from slurmgen.errors import worded
    >>> worded(ask_for("gpus", 4, 8)), worded(ask_for("time", "1-0", bound="at most"))
    ('Ask for --gpus 4 or 8.', 'Ask for at most --time 1-0.')
    """
    return phrased(f"Ask for {bound} ".replace("  ", " "), field, *values)


def phrased(before: str, field: str, *values: object, after: str = ".") -> Hint:
    """A hint of a sentence that names some values for a field.

    >>> from slurmgen.errors import worded
    >>> worded(phrased("Use ", "framework", "ddp", "srun", after=" instead."))
    'Use --framework ddp or srun instead.'
    """
    return Hint(f"{before}{option(field, ' or '.join(map(str, values)))}{after}", offered(field, *values))


def leave_out(*fields: str) -> Hint:
    """The hint to leave out one of some fields.

    >>> from slurmgen.errors import worded
    >>> worded(leave_out("mem")), worded(leave_out("partition", "gpu_type"))
    ('Leave --mem out.', 'Leave out --partition or --gpu-type.')
    """
    names = " or ".join(map(option, fields))
    return Hint(f"Leave out {names}." if len(fields) > 1 else f"Leave {names} out.", cleared(*fields))


def leave_it_out(*fields: str, text: str = "Leave it out.") -> Hint:
    """The hint to leave out what the fact names."""
    return Hint(text, cleared(*fields))


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

FILE_ONLY = ("before_login", "before", "after", "then", "stage", "stage_archives")
"Fields that slurmgen.toml and Python may set, but no option."
_IRREGULAR = {
    "modules": "--module",
    "binds": "--bind",
    "module": "--python-module",
    "secrets": "--secret",
    "launcher_args": "--launcher-arg",
    **{field: field for field in FILE_ONLY},
}
_MARK = "\x1f"
"The unit separator: no request has control characters."


def flag(field: str) -> str:
    """The command-line option of a field.

    >>> flag("cpus_per_gpu"), flag("modules"), flag("before")
    ('--cpus-per-gpu', '--module', 'before')
    """
    return _IRREGULAR.get(field) or f"--{field.replace('_', '-')}"


def option(field: str, value: object = "") -> str:
    """A field with a value, for a message.

    >>> worded(option("time", "4:00:00"))
    '--time 4:00:00'
    """
    return f"{_MARK}{field}{_MARK} {value}".rstrip(" ")


def parts(message: str) -> Iterator[tuple[str, str]]:
    """The text before each name of a field, with the field; the last text has none."""
    texts = message.split(_MARK)
    fields = [*texts[1::2], ""] if len(texts) % 2 else texts[1::2]
    return zip(texts[::2], fields, strict=True)


def fields_in(message: str) -> tuple[str, ...]:
    """The fields that a message names."""
    return tuple([field for _, field in parts(message) if field])


def worded(message: str, name: Callable[[str], str] = flag) -> str:
    """A message with the names of its fields; by default, those of their options."""
    return "".join(f"{text}{name(field) if field else ''}" for text, field in parts(message))
