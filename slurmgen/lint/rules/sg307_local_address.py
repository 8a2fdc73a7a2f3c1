"""Ranks on several nodes use localhost as their rendezvous address.

## What it checks
Checks the rendezvous address of jobs with several nodes, also in `JAX_COORDINATOR_ADDRESS`, for `localhost`,
`127.0.0.1` and `0.0.0.0`, including as a fallback if the lookup of the first node fails, and for a literal IP
address.

## Why it matters
On each node, localhost is that node. With `|| echo localhost`, a failure of scontrol makes the whole job
hang.

## Example
    MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1 || echo localhost)

## Use instead
    nodes="$(scontrol show hostnames "$SLURM_JOB_NODELIST")"
    MASTER_ADDR="${nodes%%$'\\n'*}"
    : "${MASTER_ADDR:?scontrol returned no host name}"

## When to ignore
If the launch runs on one node although the job has several.

## Reference
mlc-ai/pith-train pull request 91
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Launch, Script, Span
from slurmgen.lint.rules.common import in_force, rendezvous, several_nodes, variables_in

CODE = "SG307"
SEVERITY = "error"
SUMMARY = "localhost is a different host on every node"

_NAMES = {"MASTER_ADDR", "JAX_COORDINATOR_ADDRESS"}
_PORT = r"(?<=[^:]):[^:]*$"
_LOCAL = r"(localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|::1)"
_LITERAL = r"(\d+\.\d+\.\d+\.\d+|(?=[a-z\d.-]*\d)[a-z][a-z\d-]*(\.[a-z\d-]+)*)(?=:|$)"
"A literal IP address, or a host name, which contains a number."
_FALLBACK = rf"(\|\|\s*echo\s+['\"]?|:-){_LOCAL}"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the addresses of launches on several nodes."""
    seen = set()
    for launch in script.launches:
        if not several_nodes(script, launch):
            continue
        for span, is_local in _addresses(script, launch):
            if span not in seen:
                seen.add(span)
                yield Finding(span, _FACTS[is_local], _ADVICE)


_FACTS = {
    True: "this address is the local node, so each node connects only to itself",
    False: "this address belongs to one machine, which may not be a node of the job",
}
_ADVICE = 'use the first host of `scontrol show hostnames "$SLURM_JOB_NODELIST"`, without a fallback'


def _addresses(script: Script, launch: Launch) -> Iterator[tuple[Span, bool]]:
    """The literal addresses of a launch, and whether each means the local node."""
    for found in in_force(script, launch, variables_in(launch, "addr") | _NAMES):
        host = re.sub(_PORT, "", found.value)
        if re.fullmatch(_LOCAL, host) or re.search(_FALLBACK, found.raw):
            yield found.span, True
        elif re.fullmatch(_LITERAL, host):
            yield found.span, False
    for given in rendezvous(launch, "addr"):
        value = re.sub(r"^\w+://", "", given.value)
        match = re.match(rf"(?P<local>{_LOCAL})|{_LITERAL}", value)
        if match and match[0] in given.word.raw:
            yield given.word.span, bool(match["local"])
