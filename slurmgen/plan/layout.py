"""The layout of a job: nodes and GPUs per node, from its number of GPUs."""

from slurmgen.errors import RequestError
from slurmgen.field_names import option
from slurmgen.hints import Hint, cleared, offered
from slurmgen.launchers import LAUNCHERS, Launcher, Layout
from slurmgen.plan.reasons import Reason, derived
from slurmgen.text import counted

WITHOUT_GPUS = tuple(name for name, one in LAUNCHERS.items() if one.shape == "process-per-node")
"The launchers of jobs without GPUs."
MOST_GPUS_PER_NODE = 128
"More than any node has, even with each GPU divided by MIG."


def check_shape(launcher: Launcher, layout: Layout) -> None:
    """Refuse a launcher that cannot start on so many nodes, or without GPUs.

    Raises:
        RequestError: the hint names the launchers that can.
    """
    if not layout.gpus and launcher.name not in WITHOUT_GPUS:
        raise RequestError(
            f"{launcher.name} starts one rank per GPU, and {option('gpus', 0)} requests none",
            Hint(
                f"Use {option('framework', ' or '.join(WITHOUT_GPUS))}, or leave {option('gpus', 0)} out.",
                (*offered("framework", *WITHOUT_GPUS), *cleared("gpus")),
            ),
        )
    most = launcher.max_nodes
    if most and layout.nodes > most:
        idle = f"{layout.nodes - most} of {layout.nodes} nodes"
        known = WITHOUT_GPUS if not layout.gpus else tuple(LAUNCHERS)
        others = [name for name in known if LAUNCHERS[name].max_nodes is None]
        raise RequestError(
            f"{launcher.name} starts one process, so {idle} would idle",
            Hint(
                f"Ask for one node, or for {option('framework', ' or '.join(others[:3]))}.",
                (*offered("nodes", 1), *offered("framework", *others[:3])),
            ),
        )


def lay_out(
    gpus: int, nodes: int | None, per_node: int | None, place: str, nodes_why: Reason
) -> tuple[Layout, Reason]:
    """Spread a job's GPUs over nodes, with the reason for the result.

    Args:
        gpus: GPUs of the whole job.
        nodes: the requested nodes, if any.
        per_node: GPUs of a node, if known.
        place: the name of that node in an error.
        nodes_why: the reason for `nodes`.

    Raises:
        RequestError: the GPUs cannot be spread evenly, or a node has fewer.
    """
    if nodes is not None:
        return _over_given_nodes(gpus, nodes, per_node, place, nodes_why)
    if per_node is None:
        _check_one_node(gpus, f"{place} does not say how many GPUs a node has", f"Add {option('nodes')}.")
        why = f"{place} does not say how many GPUs a node has, so all are on one node"
        return Layout(1, gpus), derived(why)
    if gpus <= per_node:
        return Layout(1, gpus), derived(f"a node of {place} has {counted(per_node, 'GPU')}")
    if gpus % per_node:
        raise RequestError(
            f"{gpus} GPUs do not fill whole nodes: a node of {place} has {per_node}",
            _nearest(gpus, per_node),
            "gpus",
        )
    count = gpus // per_node
    return Layout(count, per_node), derived(f"{gpus} GPUs fill {count} nodes of {per_node} on {place}")


def _over_given_nodes(
    gpus: int, nodes: int, per_node: int | None, place: str, nodes_why: Reason
) -> tuple[Layout, Reason]:
    if gpus % nodes:
        raise RequestError(
            f"{counted(gpus, 'GPU')} cannot be divided over {nodes} nodes",
            _divisible(gpus, nodes, per_node),
            "gpus",
        )
    each = gpus // nodes
    if per_node is not None and each > per_node:
        on, most, fewest = counted(nodes, "node"), nodes * per_node, -(-gpus // per_node)
        raise RequestError(
            f"{gpus} GPUs on {on} are {each} per node, but a node of {place} has {per_node}",
            Hint(
                f"Ask for at most {counted(most, 'GPU')}, or for {fewest} nodes or more.",
                (*offered("gpus", most), *offered("nodes", fewest)),
            ),
        )
    _check_one_node(each, "no node has that many", f"Ask for more {option('nodes')}.")
    why = f"{counted(nodes, 'node')} {nodes_why.text}, so {each} of {counted(gpus, 'GPU')} on each"
    return Layout(nodes, each), Reason(nodes_why.source, why)


def _check_one_node(gpus: int, why: str, hint: str) -> None:
    if gpus > MOST_GPUS_PER_NODE:
        raise RequestError(f"{gpus} GPUs would be on one node: {why}", hint, "gpus")


def _nearest(gpus: int, per_node: int) -> Hint:
    below = gpus // per_node * per_node
    fewest = next(n for n in range(-(-gpus // per_node), gpus + 1) if gpus % n == 0)
    return Hint(
        f"Ask for {below} or {below + per_node} GPUs, "
        f"or add {option('nodes', fewest)} for {gpus // fewest} on each of {fewest} nodes.",
        (*offered("gpus", below, below + per_node), *offered("nodes", fewest)),
    )


def _divisible(gpus: int, nodes: int, per_node: int | None) -> Hint:
    """The nearest numbers of GPUs for these nodes, and of nodes for these GPUs."""
    room = nodes * (per_node or MOST_GPUS_PER_NODE)
    below = gpus // nodes * nodes
    counts = [str(count) for count in (below, below + nodes) if 0 < count <= room] or [str(room)]
    whole = f", {room} for whole nodes" if per_node and str(room) not in counts else ""
    fitting = [n for n in range(-(-gpus * nodes // room), gpus + 1) if gpus % n == 0]
    fewer = max((n for n in fitting if n < nodes), default=min(fitting))
    return Hint(
        f"Ask for {' or '.join(counts)} GPUs{whole}, or for {option('nodes', fewer)}.",
        (*offered("gpus", *counts, *([room] if whole else [])), *offered("nodes", fewer)),
    )
