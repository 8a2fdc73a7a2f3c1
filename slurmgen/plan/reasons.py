"""The reason for each value of a plan: its source, and a text."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from msgspec import Struct

from slurmgen.sites.model import Site

T = TypeVar("T")

REQUEST, PROFILE, DEFAULT, DERIVED = "request", "profile", "default", "derived"


class Reason(NamedTuple):
    """Why a value is what it is."""

    source: str
    "`request`, the file that sets the value, `profile`, `default`, or `derived` from other values."
    text: str

    def within(self, form: str) -> "Reason":
        """The same source; its text replaces the `{}` of `form`."""
        return Reason(self.source, form.format(self.text))


class Reasoned(Struct, frozen=True):
    """A value and its reason."""

    value: str | None
    why: Reason


Origin = Callable[[str], Reason]
"The reason for a value that a field of the request sets."


def origin_of(files: Mapping[str, str]) -> Origin:
    """The origin of each field: its file in `files`, else the command line."""

    def origin(field: str) -> Reason:
        return (
            Reason(files[field], f"from {files[field]}")
            if field in files
            else Reason(REQUEST, "as requested")
        )

    return origin


def from_profile(site: Site, key: str) -> Reason:
    """The reason for a value of the profile, with the name of its source."""
    source = site.source_of(key)
    cited = f" [{source}]" if source else ""
    return Reason(PROFILE, f"from the profile of {site.name}{cited}")


def default(text: str) -> Reason:
    """The reason for a default."""
    return Reason(DEFAULT, text)


def derived(text: str) -> Reason:
    """The reason for a value that follows from other values."""
    return Reason(DERIVED, text)


NO_FACT = default("slurmgen's default, because the profile sets none")


def first(*choices: tuple[T | None, Reason]) -> tuple[T, Reason]:
    """The first choice that has a value, with its reason."""
    for value, why in choices:
        if value is not None:
            return value, why
    raise ValueError(choices)
