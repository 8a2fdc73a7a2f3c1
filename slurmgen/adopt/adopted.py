"""The result of adopting a batch script."""

from msgspec import Struct

from slurmgen.adopt.facts import Difference
from slurmgen.request import Request


class Line(Struct, frozen=True):
    """A line of the script that is not in the request as it is."""

    line: int
    "Counted from 1."
    text: str
    why: str


class Adopted(Struct, frozen=True, kw_only=True):
    """A batch script as a request."""

    name: str
    "The name of the job in slurmgen.toml."
    request: Request
    replaced: tuple[Line, ...] = ()
    "Lines that slurmgen replaces by its own."
    lost: tuple[Line, ...] = ()
    "Lines that a request does not express."
    secrets: tuple[Line, ...] = ()
    "Values that are left out, because they look like secrets."
    source: str = ""
    "The script without these values."
    notes: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    "What the header of the rendered script requests differently."
    error: str = ""
    "Why the site cannot run the request; empty if it can."
    rendered: str = ""
    "The script that slurmgen makes; empty after an error."
