"""The port may be one that the system gives away.

## What it finds
A port that is computed or drawn, from a range that reaches into 32768-60999.

## Why it is bad
Linux gives those ports to any program that opens a connection. Now and then one is taken when the ranks
want it, and the job dies at its start; the more jobs, the more often.

## Example
    MASTER_PORT=$((10000 + RANDOM % 50000))

## Use instead
    MASTER_PORT=$((20000 + SLURM_JOB_ID % 12768))

## Reference
NVIDIA/enroot issue 243 ; https://docs.kernel.org/networking/ip-sysctl.html (ip_local_port_range)
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Assignment, Launch, Script, Span
from slurmgen.lint.rules.common import JOB_PORT, PORT_OPTIONS, in_force, names_in

CODE = "SG302"
SEVERITY = "warning"
SUMMARY = "the port may be taken: it is in the ephemeral range"

_FIRST, _LAST = 32768, 60999
_SHUF = r"shuf\s+(?:-n\s*1\s+)?-i\s*(\d{1,9})-(\d{1,9})"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look at the range of every port that a launch uses."""
    used = {found for launch in script.launches for found in in_force(script, launch, _names(launch))}
    for found in used:
        low, high = _bounds(found)
        if low < high and low <= _LAST and high >= _FIRST:
            edit = Edit(Span(found.span.end - len(found.raw), found.span.end), JOB_PORT)
            yield Finding(
                found.span,
                f"{found.name} is in {low:.0f}-{high:.0f}, but the system gives away {_FIRST}-{_LAST}",
                f"stay below: `{JOB_PORT}`",
                (edit,),
            )


def _names(launch: Launch) -> set[str]:
    if "standalone" in launch.options.given:
        return set()
    return names_in(launch, PORT_OPTIONS) | ({"MASTER_PORT"} if launch.kind == "python" else set())


def _bounds(found: Assignment) -> tuple[float, float]:
    drawn = re.search(_SHUF, found.raw)
    if drawn:
        return int(drawn[1]), int(drawn[2])
    low, high = found.range
    return (low, high) if low >= 0 and high <= 10**9 else (0, 0)
