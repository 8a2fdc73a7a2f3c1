"""Words for people."""

from collections.abc import Collection
from itertools import islice


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "file"), counted(0, "file")
    ('1 file', '0 files')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(names: Collection[str], most: int = 5) -> str:
    """The first of some names, and how many more there are.

    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(islice(names, most)) + more
