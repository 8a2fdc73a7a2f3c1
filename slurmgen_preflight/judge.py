"""Which nodes are bad? Pure functions of what the nodes found out; a node is compared with the others.

Each function yields (node, check, text). A fact that is None is unknown, and nothing is concluded from it.
Those for GPUs and products are in judge_gpus.py, those for connections in judge_network.py.
"""

from statistics import median

from compare import counted, reference, size_text, the_usual

SKEW = 1.0
"Seconds between clocks."
_FULL = 16 << 20


def memory(facts, requested):
    """Host memory that is nearly full: too little for the job, or less than half of the others'.

    Args:
        facts: what each node found out.
        requested: bytes that the job requests on each node; None if unknown.
    """
    free = {node: fact["memory"]["free"] for node, fact in facts.items()}
    usual = reference(free.values(), free, max)
    for node, count in free.items():
        text = f"{size_text(count)} of memory are available, "
        if requested and 4 * count < min(requested, facts[node]["memory"]["total"]):
            yield node, "memory", f"{text}the job requests {size_text(requested)}"
        elif 2 * count < usual and count < (requested or usual):
            yield node, "memory", f"{text}{the_usual(free)} is {size_text(usual)}"


def shared_memory(facts):
    """Shared memory that is nearly full, or far smaller than on the others."""
    found = {node: fact["shm"] for node, fact in facts.items() if fact["shm"]}
    free = {node: one["free"] for node, one in found.items()}
    usual = reference(free.values(), free, max) if free else 0
    for node, one in found.items():
        text = f"shared memory (/dev/shm) has {size_text(one['free'])} free of {size_text(one['total'])}"
        if one["free"] < max(_FULL, one["total"] / 10):
            yield node, "shm", text
        elif 10 * one["free"] < usual:
            yield node, "shm", f"{text}, {the_usual(free)} is {size_text(usual)}"


def clocks(offsets):
    """A clock that differs from the others'; `offsets` are (seconds, round trip) by node.

    Of two nodes, either clock may be wrong: the second one is named.
    """
    if len(offsets) == 2:
        usual, others = offsets[min(offsets)][0], "the first node's; either may be wrong"
    else:
        usual, others = median(offset for offset, _ in offsets.values()), "the others"
    for node, (offset, trip) in offsets.items():
        skew = offset - usual
        if abs(skew) - trip / 2 > SKEW:
            direction = "ahead of" if skew > 0 else "behind"
            yield node, "clock", f"its clock is {abs(skew):.1f} s {direction} {others}"


def names(facts, asked, owners):
    """Host names that do not resolve: the owner's fault if most others fail, else the resolver's.

    Args:
        facts: what each node found out.
        asked: the names that each node had to resolve.
        owners: the node of each name.
    """
    failed = {name: [node for node, fact in facts.items() if name in fact["unresolved"]] for name in owners}
    others = {name: _witnesses(name, facts, asked) - {owner} for name, owner in owners.items()}
    unknown = {
        name for name in owners if 2 * len(others[name].intersection(failed[name])) > len(others[name])
    }
    for name, nodes in failed.items():
        if name in unknown and len(unknown) < len(owners):
            count = sum(name in asked[node] for node in facts)
            yield owners[name], "dns", f"its name does not resolve on {_of(len(nodes), count)}"
        elif others[name] and name not in unknown:
            for node in nodes:
                yield node, "dns", f"cannot resolve {name}, which the others resolve"


def _witnesses(name, facts, asked):
    """The nodes that had to resolve a name, except those that resolve nothing."""
    return {
        node
        for node, fact in facts.items()
        if name in asked[node] and set(asked[node]) - set(fact["unresolved"])
    }


def shared_folder(facts, missing, unseen, first):
    """Nodes that cannot write the job's folder, or see other files in it than the first node.

    Args:
        facts: what each node found out.
        missing: the nodes whose files a node does not see.
        unseen: the nodes whose files the first node does not see.
        first: the first node.
    """
    for node, fact in facts.items():
        if fact["unwritable"]:
            yield node, "shared-folder", f"cannot write to the job's folder: {fact['unwritable']}"
    written = {node for node, fact in facts.items() if not fact["unwritable"]}
    others = written - {first}
    if len(others) > 1 and others <= unseen:
        yield first, "shared-folder", "does not see the files of the other nodes in the job's folder"
        return
    for node in sorted(written & unseen):
        yield node, "shared-folder", "its file in the job's folder is not visible on the first node"
    for node, numbers in missing.items():
        if written.intersection(numbers) - unseen:
            yield node, "shared-folder", "does not see the files of other nodes in the job's folder"


def _of(count, whole):
    return f"{count} of {counted(whole, 'node')}"
