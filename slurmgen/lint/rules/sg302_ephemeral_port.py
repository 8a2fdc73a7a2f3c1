"""The port may be in the ephemeral range.

## What it checks
Checks for a port whose possible values overlap 32768-60999: a number, also in an
argument such as `--dist-url tcp://HOST:40000`, or one that is computed or random. A loop that tries ports
until one is free is not reported.

## Why it matters
Linux assigns these ports to programs that open outgoing connections. If one is in use when the ranks start,
the job fails. This is rare for a single job, but likely over many jobs.

## Example
    MASTER_PORT=$((10000 + RANDOM % 50000))

## Use instead
    MASTER_PORT=$((20000 + SLURM_JOB_ID % 12768))

## When to ignore
If the port is known to be reserved on the nodes (ip_local_reserved_ports).

## Reference
NVIDIA/enroot issue 243 ; https://docs.kernel.org/networking/ip-sysctl.html (ip_local_port_range)
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Assignment, Launch, Script
from slurmgen.lint.rules.common import (
    JOB_PORT,
    default_port_in,
    has_ranks,
    in_force,
    port_in,
    port_variables,
    rendezvous,
    replace_assigned,
)
from slurmgen.lint.rules.ports import job_port, port_values

CODE = "SG302"
SEVERITY = "warning"
SUMMARY = "the port may be in use: its range overlaps the ephemeral ports"

_FIRST, _LAST = 32768, 60999
_SHUF = r"shuf\s[^|)]*?(?:-[a-z]*i\s*|--input-range[= ])['\"]?"
_DRAWN = rf"(?:{_SHUF}|rand(?:int|range)\()(\d{{1,9}})\s*[-,]\s*(\d{{1,9}})"
"The range of `shuf -i LOW-HIGH` or of Python's `randint(LOW, HIGH)`."


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the range of every port that a launch uses."""
    used: set[Assignment] = {
        found
        for launch in script.started
        for found in in_force(script, launch, _names(script, launch), branches=True)
    }
    values = port_values(script)
    for found in used:
        if _is_probed(script, found):
            continue
        low, high = _bounds(found)
        if low <= _LAST and high >= _FIRST:
            better = job_port(found, values)
            value = f"in {low:.0f}-{high:.0f}" if low < high else f"{low:.0f}"
            yield Finding(
                found.span,
                f"{found.name} is {value}; the ephemeral ports are {_FIRST}-{_LAST}",
                f"use a port below {_FIRST}: `{better}`",
                replace_assigned(script, found, better) if found.value.isdigit() or low < high else (),
            )
    seen = set()
    for launch in script.started:
        for given in () if "standalone" in launch.options.given else rendezvous(launch, "port"):
            port = port_in(given.value)
            literal = port and port in given.word.raw and given.word.span not in seen
            if port and literal and _FIRST <= int(port) <= _LAST:
                seen.add(given.word.span)
                yield Finding(
                    given.word.span,
                    f"the port is {port}; the ephemeral ports are {_FIRST}-{_LAST}",
                    f"use a port below {_FIRST}: `{JOB_PORT}`",
                )


def _is_probed(script: Script, found: Assignment) -> bool:
    """Whether a loop draws the port until one is free: another command of the loop uses it."""
    return "loop" in found.place and any(
        "loop" in command.place and any(found.name in word.names for word in command.words)
        for command in script.commands
    )


def _names(script: Script, launch: Launch) -> set[str]:
    if "standalone" in launch.options.given:
        return set()
    reads = launch.kind in ("python", "program") and has_ranks(script, launch)
    return port_variables(script, launch) | ({"MASTER_PORT"} if reads else set())


def _bounds(found: Assignment) -> tuple[float, float]:
    drawn = re.search(_DRAWN, found.raw)
    if drawn and "comm" not in found.within:
        return int(drawn[1]), int(drawn[2])
    low, high = found.range
    if low >= 0 and high <= 10**9:
        return low, high
    port = float(port_in(found.value) or default_port_in(found.raw) or 0)
    return port, port
