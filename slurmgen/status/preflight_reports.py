"""The reports that preflights left in run folders: which nodes of a job are bad, and why.

A job writes them, and the login node sends them; neither is trusted. A report that does not have exactly the
expected form is ignored.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from msgspec import DecodeError, Meta, Struct, ValidationError, json

from slurmgen.ledger.bad_nodes import NODE_NAME, in_one_line
from slurmgen.remote.transport import COMMAND_TIMEOUT, Transport, batches
from slurmgen.status.failure import Why
from slurmgen.text import counted, listed

BAD_NODE = 79
"Exit status of a job whose preflight found a bad node."
MAX_REPORT = 1 << 18
"Bytes of one report; a healthy node takes about 50."
MAX_REPORTS = 10
"Of one job: the first of its runs or tasks that name a bad node."
MAX_NODES = 64
"Bad nodes of one job that are remembered."
MAX_FINDINGS = 64
"Of one node; there are fewer checks."
CHECK_NAME = "[a-z][a-z-]{0,31}"
# A NUL ends each report, so the reports themselves must not contain one; a lone dot ends those of a folder.
_READ = r"""
export LC_ALL=C
size=$1 most=$2 bad='"healthy": *false'
shift 2
for folder do
  left=$most
  for file in "$folder"/.preflight-*.json; do
    if [ "$left" -gt 0 ] && [ -f "$file" ] && [ -r "$file" ] && head -c "$size" "$file" | grep -q "$bad"; then
      left=$((left - 1))
      printf r
      head -c "$size" "$file" | tr -d '\000'
      printf '\000'
    fi
  done
  printf '.\000'
done"""


class _Finding(Struct):
    text: str
    check: Annotated[str, Meta(pattern=rf"^{CHECK_NAME}\Z")]


class _Node(Struct):
    node: Annotated[str, Meta(pattern=rf"^{NODE_NAME}\Z")]
    healthy: bool | None
    "None if it was not checked."
    busy: bool = False
    findings: Annotated[list[_Finding], Meta(max_length=MAX_FINDINGS)] = []


class _Report(Struct):
    schema: Literal[1]
    verdict: Literal["healthy", "bad"]
    nodes: list[_Node]


_EXCLUDED = (
    "`slurmgen submit` excludes it now, and `slurmgen nodes` lists it; "
    'with on_bad_node = "retry" a job continues without it.'
)
_SUBMIT_AGAIN = "Submit it again: each job has a port of its own. The node is not excluded."


class Finding(Struct, frozen=True):
    """What is wrong with a node."""

    text: str
    "In one line."
    checks: tuple[str, ...]
    "The checks that found it."


Findings = Mapping[str, Finding]
"What is wrong with each bad node, by its name."


class Found(Struct, frozen=True):
    """What reports say against nodes."""

    bad: Findings = {}
    busy: Findings = {}
    "Nodes that are not bad, but that the job cannot use now, such as one with its port in use."

    def __or__(self, other: "Found") -> "Found":
        return Found({**self.bad, **other.bad}, {**self.busy, **other.busy})


def read(transport: Transport, folders: Sequence[str]) -> list[Found]:
    """The findings about nodes in each run folder; one command reads all, of up to some hundred folders."""
    return [found for some in batches(folders) for found in _read(transport, some)]


def _read(transport: Transport, folders: Sequence[str]) -> list[Found]:
    argv = ["sh", "-c", _READ, "preflight", str(MAX_REPORT), str(MAX_REPORTS), *folders]
    reply = transport.run(argv, timeout=COMMAND_TIMEOUT)
    found = [Found()]
    for text in reply.stdout.split(b"\0", len(folders) * (MAX_REPORTS + 1))[:-1]:
        if text == b".":
            found.append(Found())
        else:
            found[-1] |= findings(text.removeprefix(b"r"))
    return [*found, *[Found()] * len(folders)][: len(folders)]


def findings(report: bytes) -> Found:
    """What a report says against nodes; nothing if it has not the expected form.

    Nothing either if it says that all checked nodes of several are bad: then the fault is hardly theirs.
    """
    try:
        content = json.decode(report, type=_Report)
    except (DecodeError, ValidationError, RecursionError):
        return Found()
    named = [node for node in content.nodes if node.healthy is False]
    has_healthy = any(node.healthy for node in content.nodes)
    if content.verdict == "healthy" or (len(content.nodes) > 1 and not has_healthy):
        return Found()
    bad, busy = (
        {node.node: _finding(node) for node in named[:MAX_NODES] if node.busy is is_busy}
        for is_busy in (False, True)
    )
    return Found(bad, busy)


def _finding(node: _Node) -> Finding:
    text = in_one_line("; ".join(finding.text for finding in node.findings))
    checks = dict.fromkeys(finding.check for finding in node.findings)
    return Finding(text or "its preflight failed", tuple(checks))


def why(found: Found) -> Why | None:
    """Why a job that ended with BAD_NODE failed; None if no report names a node."""
    named = found.bad or found.busy
    if not named:
        return None
    node, finding = next(iter(named.items()))
    others = [name for name in named if name != node]
    more = f"; and {counted(len(others), 'more node')}: {listed(others)}" if others else ""
    return Why(f"not your code: node {node}: {finding.text}{more}", _EXCLUDED if found.bad else _SUBMIT_AGAIN)
