"""Nodes and GPUs per node out of a number of GPUs."""

from msgspec import Struct

from slurmgen.errors import RequestError
from slurmgen.wording import counted


class Layout(Struct, frozen=True, gc=False):
    """How the GPUs lie on the nodes, and why."""

    nodes: int
    gpus_per_node: int
    why: str


def lay_out(gpus: int, nodes: int | None, per_node: int | None, place: str) -> Layout:
    """Spread a job's GPUs over nodes.

    Args:
        gpus: GPUs of the whole job.
        nodes: nodes the person asked for, if any.
        per_node: GPUs that a node has, if known.
        place: what to call that node in an error.

    Raises:
        RequestError: they do not divide, or a node has fewer.
    """
    if nodes is not None:
        return _over_given_nodes(gpus, nodes, per_node, place)
    if per_node is None:
        return Layout(1, gpus, f"{place} does not say how many GPUs a node has, so all are on one node")
    if gpus <= per_node:
        return Layout(1, gpus, f"a node of {place} has {counted(per_node, 'GPU')}")
    if gpus % per_node:
        raise RequestError(
            f"{gpus} GPUs do not fill whole nodes: a node of {place} has {per_node}", _nearest(gpus, per_node)
        )
    count = gpus // per_node
    return Layout(count, per_node, f"{gpus} GPUs fill {count} nodes of {per_node} on {place}")


def _over_given_nodes(gpus: int, nodes: int, per_node: int | None, place: str) -> Layout:
    if gpus % nodes:
        below = gpus // nodes * nodes
        choices = [str(n) for n in (below, below + nodes) if n]
        raise RequestError(
            f"{counted(gpus, 'GPU')} cannot be divided over {nodes} nodes",
            f"Ask for {' or '.join(choices)} GPUs.",
        )
    each = gpus // nodes
    if per_node is not None and each > per_node:
        on, most = counted(nodes, "node"), counted(nodes * per_node, "GPU")
        raise RequestError(
            f"{gpus} GPUs on {on} are {each} a node, but a node of {place} has {per_node}",
            f"Ask for at most {most}, or for {-(-gpus // per_node)} nodes or more.",
        )
    return Layout(nodes, each, f"--nodes {nodes}, so {each} of {counted(gpus, 'GPU')} on each")


def _nearest(gpus: int, per_node: int) -> str:
    below = gpus // per_node * per_node
    fewest = next(n for n in range(-(-gpus // per_node), gpus + 1) if gpus % n == 0)
    return (
        f"Ask for {below} or {below + per_node} GPUs, "
        f"or add --nodes {fewest} for {gpus // fewest} on each of {fewest} nodes."
    )
