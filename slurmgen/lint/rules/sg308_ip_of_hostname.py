"""The address comes from `hostname --ip-address`.

## What it finds
On several nodes, an address from `hostname -i`, `-I` or `--ip-address`, taken whole.

## Why it is bad
It prints 127.0.1.1 where /etc/hosts says so, and several addresses where a node has several; then no node
reaches the first one.

## Example
    head_ip=$(srun -N1 -n1 -w "$head_node" hostname --ip-address)

## Use instead
    nodes="$(scontrol show hostnames "$SLURM_JOB_NODELIST")"
    MASTER_ADDR="${nodes%%$'\\n'*}"

A host name will do; where a site asks for an address, `getent ahostsv4 NAME` has it.

## Reference
nebius/nebius-solutions-library issue 177 ; skypilot-org/skypilot issue 10333
"""

import re
from collections import Counter
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.common import ADDRESS_OPTIONS, names_in, several_nodes

CODE = "SG308"
SEVERITY = "warning"
SUMMARY = "hostname --ip-address may print 127.0.1.1 or several addresses"

_LOOKUP = r"\bhostname\s+(-i|-I|--ip-address|--all-ip-addresses)\s*['\"`)]"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Look at where addresses of launches on several nodes come from."""
    launches = [launch for launch in script.launches if several_nodes(script, launch)]
    names = {name for launch in launches for name in names_in(launch, ADDRESS_OPTIONS) | {"MASTER_ADDR"}}
    sources = (
        names | {name for found in script.assigned(*names) for name in found.names} if launches else set()
    )
    assigned = list(script.assigned(*sources))
    times = Counter(found.name for found in assigned)
    for found in assigned:
        if times[found.name] == 1 and re.search(_LOOKUP, found.raw):
            yield Finding(
                found.span,
                "this may be 127.0.1.1, or several addresses in one line",
                'use the first name of `scontrol show hostnames "$SLURM_JOB_NODELIST"`',
            )
