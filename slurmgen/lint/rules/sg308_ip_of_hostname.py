"""The rendezvous address is the output of `hostname --ip-address`.

## What it checks
Checks for jobs with several nodes that use the whole output of `hostname -i`, `-I`, `--ip-address` or
`--all-ip-addresses` as an address, or another address than the first. Variables such as `head_node_ip` count
as addresses.

## Why it matters
The command prints 127.0.1.1 if /etc/hosts assigns it to the host, and several addresses if the node has
several. The other nodes then cannot connect to the first one.

## Example
    head_ip=$(srun -N1 -n1 -w "$head_node" hostname --ip-address)

## Use instead
    nodes="$(scontrol show hostnames "$SLURM_JOB_NODELIST")"
    MASTER_ADDR="${nodes%%$'\\n'*}"

A host name is sufficient. If a site requires an IP address, use `getent ahostsv4 NAME`.

## When to ignore
If the nodes have one address each, which /etc/hosts does not map to 127.0.1.1.

## Reference
nebius/nebius-solutions-library issue 177 ; skypilot-org/skypilot issue 10333
"""

import re
from collections import Counter
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.common import several_nodes, variables_in

CODE = "SG308"
SEVERITY = "warning"
SUMMARY = "hostname --ip-address may print 127.0.1.1 or several addresses"

_LOOKUP = (
    r"\bhostname\s+(-i|-I|--ip-address|--all-ip-addresses)\s*"
    r"(['\"`)]|\|\s*(cut|awk)\b[^|)`]*?(-f\s*|\$)[2-9])"
)
"Its whole output, or another address than the first."
_MEETING_POINT = re.compile(
    r"(\w*_)?(master|main|head|rdzv|coord\w*|leader)(_?(node|host))?_?(ip|addr\w*)", re.I
)


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the commands that set the addresses of launches on several nodes."""
    launches = [launch for launch in script.launches if several_nodes(script, launch)]
    names = {name for launch in launches for name in variables_in(launch, "addr") | {"MASTER_ADDR"}}
    sources = (
        names | {name for found in script.assigned(*names) for name in found.names} if launches else set()
    )
    if (script.job.nodes or 1) > 1:
        sources |= {found.name for found in script.shell.assignments if _MEETING_POINT.fullmatch(found.name)}
    assigned = list(script.assigned(*sources))
    times = Counter(found.name for found in assigned if not found.conditional)
    for found in assigned:
        if times[found.name] == 1 and re.search(_LOOKUP, found.raw):
            yield Finding(
                found.span,
                "the address may be 127.0.1.1, or several addresses on one line",
                'use the first host of `scontrol show hostnames "$SLURM_JOB_NODELIST"`',
            )
