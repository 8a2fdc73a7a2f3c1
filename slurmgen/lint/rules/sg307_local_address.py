"""Ranks on several nodes use localhost as their rendezvous address.

## What it checks
Checks the rendezvous address of jobs with several nodes for `localhost`, `127.0.0.1` and `0.0.0.0`, including
as a fallback if the lookup of the first node fails.

## Why it matters
On each node, localhost is that node. With `|| echo localhost`, a failure of scontrol makes the whole job
hang.

## Example
    MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1 || echo localhost)

## Use instead
    nodes="$(scontrol show hostnames "$SLURM_JOB_NODELIST")"
    MASTER_ADDR="${nodes%%$'\\n'*}"
    : "${MASTER_ADDR:?scontrol returned no host name}"

## Reference
mlc-ai/pith-train pull request 91
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.common import ADDRESS_OPTIONS, in_force, several_nodes, variables_in

CODE = "SG307"
SEVERITY = "error"
SUMMARY = "localhost is a different host on every node"

_LOCAL = r"(localhost|127\.0\.0\.1|0\.0\.0\.0)"
_FALLBACK = rf"(\|\|\s*echo\s+['\"]?|:-){_LOCAL}"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the addresses of launches on several nodes."""
    seen = set()
    for launch in script.launches:
        if not several_nodes(script, launch):
            continue
        names = variables_in(launch, ADDRESS_OPTIONS) | {"MASTER_ADDR"}
        places = [
            found.span
            for found in in_force(script, launch, names)
            if re.fullmatch(_LOCAL, found.value) or re.search(_FALLBACK, found.raw)
        ]
        given = [launch.options.given[name] for name in ADDRESS_OPTIONS if name in launch.options.given]
        places += [g.word.span for g in given if re.match(_LOCAL, g.value) and not g.word.names]
        for span in [place for place in places if place not in seen]:
            seen.add(span)
            yield Finding(
                span,
                "this address is the local node, so each node connects only to itself",
                'use the first host of `scontrol show hostnames "$SLURM_JOB_NODELIST"`, without a fallback',
            )
