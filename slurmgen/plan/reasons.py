"""Why a value of a plan is what it is: who decided it, and that in words."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from slurmgen.sites.model import Site

REQUEST, PROFILE, DEFAULT, DERIVED = "request", "profile", "default", "derived"


class Reason(NamedTuple):
    """Who decided a value, and why in words."""

    source: str
    "`request`, the file that the request's value is from, `profile`, `default`, or `derived` from others."
    text: str

    def within(self, form: str) -> "Reason":
        """The same source, with its words where `form` has `{}`."""
        return Reason(self.source, form.format(self.text))


Origin = Callable[[str], Reason]
"The reason for a value that a field of the request sets."


def origin_of(files: Mapping[str, str]) -> Origin:
    """The origin of each field; `files` are those that fields come from, else they were asked for."""

    def origin(field: str) -> Reason:
        return Reason(files[field], f"from {files[field]}") if field in files else Reason(REQUEST, "as asked")

    return origin


def from_profile(site: Site) -> Reason:
    """The reason for what the profile says."""
    return Reason(PROFILE, f"from the profile of {site.name}")


def default(text: str) -> Reason:
    """The reason for a value that nobody set."""
    return Reason(DEFAULT, text)


def derived(text: str) -> Reason:
    """The reason for a value that follows from others."""
    return Reason(DERIVED, text)
