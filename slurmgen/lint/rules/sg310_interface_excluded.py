"""GLOO_SOCKET_IFNAME excludes an interface with `^`, which only NCCL understands.

## What it checks
Checks for `GLOO_SOCKET_IFNAME` with a value that starts with `^`.

## Why it matters
`^lo` means "any interface but lo" in NCCL_SOCKET_IFNAME. Gloo takes it as the name of an interface, which
does not exist, and fails when the first group with this backend is created.

## Example
    export GLOO_SOCKET_IFNAME=^lo

## Use instead
    export NCCL_SOCKET_IFNAME=^lo

## When to ignore
If the job uses only NCCL.

## Reference
https://docs.pytorch.org/docs/stable/distributed.html#choosing-the-network-interface-to-use
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script

CODE = "SG310"
SEVERITY = "warning"
SUMMARY = "GLOO_SOCKET_IFNAME takes no ^"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check every assignment."""
    for found in script.assigned("GLOO_SOCKET_IFNAME"):
        if found.value.startswith("^"):
            yield Finding(
                found.span,
                f"Gloo looks for an interface named {found.value!r}",
                "name the interface, or delete the line",
            )
