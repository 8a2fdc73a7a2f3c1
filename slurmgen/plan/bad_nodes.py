"""Bad nodes of a job: those that it excludes, and what it needs to leave one that its preflight finds."""

import re
from typing import NamedTuple

from slurmgen.errors import RequestError, contradiction
from slurmgen.field_names import option
from slurmgen.hints import Hint, cleared, offered
from slurmgen.request import Request
from slurmgen.slurm import sbatch_options

TRIES = 3
"How often a job starts in all that leaves bad nodes."
RETRY_REASONS = {
    "requeue": "the job leaves a bad node by a requeue, which Slurm must allow",
    "open-mode": "each run of the job appends to the log of the previous run",
}
"The reason for each sbatch option of a job that leaves bad nodes."
# One name, or several in brackets as Slurm writes them, such as gpu[1-3,7].
_NODES = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}(?:\[[0-9,-]{1,200}\][A-Za-z0-9._-]{0,99}){0,4}")


class Excluded(NamedTuple):
    """A node that a job excludes, and why."""

    node: str
    why: str


def excluded(request: Request) -> tuple[Excluded, ...]:
    """The nodes that a request excludes.

    Raises:
        RequestError: one is not the name of a node.
    """
    parts = (text.partition("=") for text in request.exclude or ())
    nodes = tuple(Excluded(node, why.strip()) for node, _, why in parts)
    for node, _ in nodes:
        if not _NODES.fullmatch(node):
            raise RequestError(
                f"{option('exclude')} {node!r} is not the name of a node",
                "Write NODE, NODE=WHY, or gpu[1-3].",
            )
    return nodes


def with_bad_nodes(request: Request, options: dict[str, str]) -> dict[str, str]:
    """The further sbatch options of a job, with those for bad nodes.

    Raises:
        RequestError: the request contradicts itself.
    """
    if request.on_bad_node == "retry":
        _check_requeue(request)
        options = {"requeue": "", "open-mode": "append"} | options
        options.pop("no-requeue", None)
    nodes = [node for node, _ in excluded(request)]
    if nodes:
        own = options.get("exclude", "")
        options = options | {"exclude": ",".join(dict.fromkeys([own, *nodes] if own else nodes))}
    return options


def _check_requeue(request: Request) -> None:
    if not request.preflight:
        raise RequestError(
            f"{option('on_bad_node')} has no effect without {option('preflight')}",
            Hint(
                f"Add {option('preflight')}, or leave it out.",
                (*offered("preflight", "yes"), *cleared("on_bad_node")),
            ),
        )
    if "no-requeue" in sbatch_options.given(request.sbatch):
        raise contradiction(option("on_bad_node", "retry"), option("sbatch", "no-requeue"))


def refusals(request: Request) -> dict[str, str]:
    """What to do when Slurm has too few nodes for a job that excludes some, by a part of its message."""
    todo = (
        "The job excludes nodes: submit it with --no-exclude-bad-nodes, or clear some with `slurmgen nodes`. "
        "Else request less, or another --partition or --gpu-type."
    )
    return {"node configuration is not available": todo} if request.exclude else {}


def why_no_requeue(request: Request) -> str:
    """Why a job is not requeued at its time limit, if nothing is requested."""
    retry = request.on_bad_node == "retry"
    return f"not requested{'; only a bad node requeues the job' if retry else ''}"


def reason(request: Request, option: str) -> str | None:
    """Why a job has an sbatch option, if it is for bad nodes."""
    if option == "exclude" and request.exclude:
        also = " and of --sbatch exclude" if sbatch_options.given(request.sbatch).get(option) else ""
        return f"the nodes of --exclude{also}"
    is_own = request.on_bad_node != "retry" or option in request.sbatch
    return None if is_own else RETRY_REASONS.get(option)
