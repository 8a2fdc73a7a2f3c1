"""Ports that depend on the job, for the fixes of fixed ones: two ports of a script stay different."""

import re
from itertools import count

from slurmgen.lint.reader import Assignment, Script
from slurmgen.lint.rules.common import JOB_PORT

_NAME = re.compile(r"(?:.*_)?port(?:_.*|\d*)", re.IGNORECASE | re.DOTALL)
_JOB_ID = "SLURM_JOB_ID"
_BETWEEN = 4000
"Jobs between two that have the same port, for different variables."


def port_values(script: Script) -> tuple[str, ...]:
    """The different values of the variables for ports, in the order of the script."""
    found = [one for one in script.shell.assignments if _NAME.fullmatch(one.name)]
    return tuple(dict.fromkeys(_value(one) for one in found if one.value.isdigit() or _JOB_ID in one.raw))


def job_port(found: Assignment, values: tuple[str, ...]) -> str:
    """A port derived from the job ID for a variable that has another one.

    Args:
        found: where the variable is set.
        values: those of all variables for ports, one of which may be that of this one.
    """
    own = _value(found)
    first = values.index(own) if own in values else 0
    return next(port for port in map(_numbered, count(first)) if port not in values)


def _numbered(number: int) -> str:
    return JOB_PORT.replace(_JOB_ID, f"({_JOB_ID} + {number * _BETWEEN})") if number else JOB_PORT


def _value(found: Assignment) -> str:
    return found.raw.strip("\"'")
