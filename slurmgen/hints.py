"""What a user can do about an error: a text, and the same as changes of the request that a page can make."""

from typing import NamedTuple

from slurmgen.field_names import option

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

    >>> from slurmgen.field_names import worded
    >>> worded(ask_for("gpus", 4, 8)), worded(ask_for("time", "1-0", bound="at most"))
    ('Ask for --gpus 4 or 8.', 'Ask for at most --time 1-0.')
    """
    return phrased(f"Ask for {bound} ".replace("  ", " "), field, *values)


def phrased(before: str, field: str, *values: object, after: str = ".") -> Hint:
    """A hint of a sentence that names some values for a field.

    >>> from slurmgen.field_names import worded
    >>> worded(phrased("Use ", "framework", "ddp", "srun", after=" instead."))
    'Use --framework ddp or srun instead.'
    """
    return Hint(f"{before}{option(field, ' or '.join(map(str, values)))}{after}", offered(field, *values))


def leave_out(*fields: str) -> Hint:
    """The hint to leave out one of some fields.

    >>> from slurmgen.field_names import worded
    >>> worded(leave_out("mem")), worded(leave_out("partition", "gpu_type"))
    ('Leave --mem out.', 'Leave out --partition or --gpu-type.')
    """
    names = " or ".join(map(option, fields))
    return Hint(f"Leave out {names}." if len(fields) > 1 else f"Leave {names} out.", cleared(*fields))


def leave_it_out(*fields: str, text: str = "Leave it out.") -> Hint:
    """The hint to leave out what the fact names."""
    return Hint(text, cleared(*fields))
