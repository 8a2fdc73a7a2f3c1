"""A wrong fact of a profile."""

from typing import NamedTuple


class Fault(NamedTuple):
    """A wrong fact."""

    keys: tuple[str, ...]
    "The keys that lead to it in the profile."
    fact: str
    hint: str
