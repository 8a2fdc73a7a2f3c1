"""The fields of squeue and sacct: what a query requests, and how a reply is read."""

from collections.abc import Callable
from typing import Any, NamedTuple

SEPARATOR = "|"
_EMPTY = frozenset({"None", "(null)", "N/A", "Unknown", "INVALID", "Partition_Limit", "None assigned"})
"What Slurm prints where there is no value."


def value(text: str) -> str:
    """A value as Slurm prints it; empty if there is none.

    >>> value("n[1-2]"), value("N/A")
    ('n[1-2]', '')
    """
    return "" if text in _EMPTY else text


class Field(NamedTuple):
    """One field of a reply."""

    name: str
    "Name in --format."
    attribute: str
    "Of JobState, or a part of its usage."
    convert: Callable[[str], str] = value
    "`str` for what may be equal to one of Slurm's words for no value."


# The last field may contain the separator: a job may have any name. A folder or comment that contains it
# shifts the name, which is only shown.
SQUEUE = (
    Field("%i", "id", str),
    Field("%T", "state", str),
    Field("%r", "reason"),
    Field("%M", "elapsed"),
    Field("%l", "time_limit"),
    Field("%S", "start"),
    Field("%N", "nodes"),
    Field("%x", "excluded"),
    Field("%V", "submitted"),
    Field("%Z", "folder"),
    Field("%k", "comment"),
    Field("%j", "name", str),
)
# All are in 20.11 too (https://slurm.schedmd.com/archive/slurm-20.11.9/sacct.html).
SACCT = (
    Field("JobID", "id", str),
    Field("State", "state", str),
    Field("ExitCode", "exit_code"),
    Field("Elapsed", "elapsed"),
    Field("Timelimit", "time_limit"),
    Field("Start", "start"),
    Field("NodeList", "nodes"),
    Field("AllocTRES", "allocated"),
    Field("TotalCPU", "cpu_time"),
    Field("TRESUsageInTot", "used"),
    Field("Submit", "submitted"),
    Field("WorkDir", "folder"),
    Field("Comment", "comment"),
    Field("JobName", "name", str),
)
# The highest exit code of the steps that srun started is not printed 128 too small.
EXIT_CODES = (
    Field("JobID", "id", str),
    Field("DerivedExitCode", "exit_code"),
    Field("WorkDir", "folder"),
    Field("JobName", "name", str),
)


def read_row(line: str, fields: tuple[Field, ...]) -> dict[str, Any]:
    """The attributes of one line of a reply; empty if the line has fewer fields."""
    cells = line.split(SEPARATOR, len(fields) - 1)
    if len(cells) != len(fields):
        return {}
    return {field.attribute: field.convert(cell) for field, cell in zip(fields, cells, strict=True)}
