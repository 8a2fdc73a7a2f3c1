"""Which nodes are bad? Pure functions of what the nodes found out; a node is compared with the others.

Each function yields (node, check, text). A fact that is None is unknown, and nothing is concluded from it.
"""

from statistics import median

SLOW = 2.0
"A product is too slow from this multiple of the median on."
SLOW_LINK = 4.0
"The same for the speed between two nodes, and between the GPUs of a node."
SKEW = 1.0
"Seconds between clocks."
LATENCY = 0.02
"Seconds of a round trip, below which no difference counts."
_GIB, _MIB = 1 << 30, 1 << 20
_FULL = 16 * _MIB


def counts(facts, expected):
    """GPUs that are missing, of another type, or that PyTorch does not see."""
    for key, what in (("gpus", "GPU"), ("torch_gpus", "GPU")):
        found = {node: _count(fact[key]) for node, fact in facts.items() if fact[key] is not None}
        for node, count in found.items():
            usual = _usual(found)
            seen = " for PyTorch" if key == "torch_gpus" else ""
            if count < (expected if key == "gpus" and expected else usual) or count < usual:
                yield node, "gpu-count", f"{_counted(count, what)}{seen}, {_but(count, usual, expected)}"
    names = {node: _names(fact["gpus"]) for node, fact in facts.items() if fact["gpus"]}
    for node, name in names.items():
        if name != _usual(names):
            yield node, "gpu-type", f"{name}, but the others have {_usual(names)}"


def unlisted(facts, expected):
    """GPUs that cannot be listed nor seen by PyTorch, though the job requests some or others list theirs."""
    others = any(fact["gpus"] for fact in facts.values())
    for node, fact in facts.items():
        fault = fact["gpus_fault"] or (others and "neither nvidia-smi nor rocm-smi is there")
        wanted = expected or int(others)
        if fact["gpus"] is None and fault and (fact["torch_gpus"] or 0) < wanted:
            yield node, "gpu-count", f"its GPUs cannot be listed: {fault}"


def _but(count, usual, expected):
    if usual > count:
        return f"but the others have {usual}"
    return f"but the job has {expected} on each node"


def gpu_health(facts, expected):
    """Uncorrected memory errors, slowdown by hardware, memory in use."""
    for (node, number), gpu in _cards(facts, expected).items():
        if gpu.get("ecc"):
            yield node, "gpu-ecc", f"GPU {number} has {gpu['ecc']:.0f} uncorrected memory errors"
        if gpu.get("slowdown"):
            yield node, "gpu-clock", f"the hardware slows GPU {number} down: heat or power supply"
        if (gpu.get("memory_used") or 0) > 0.1 * (gpu.get("memory_total") or float("inf")):
            used = f"{gpu['memory_used'] / 1024:.1f} of {gpu['memory_total'] / 1024:.1f} GiB"
            yield node, "gpu-memory", f"{used} of GPU {number} are in use before the job"


def gpu_limits(facts, expected):
    """GPUs with a lower limit of their clock or power than the others."""
    cards = _cards(facts, expected)
    for key, check, unit in (("clock", "gpu-clock", "MHz"), ("power", "gpu-power", "W")):
        values = {place: gpu[key] for place, gpu in cards.items() if gpu.get(key)}
        for (node, number), value in values.items():
            usual = median(values.values())
            if value < 0.9 * usual:
                text = f"GPU {number} is limited to {value:g} {unit}, the median is {usual:g} {unit}"
                yield node, check, text


def _cards(facts, expected):
    """The GPUs by node and number; not those of a node that lists more, since some may be of another job."""
    return {
        (node, number): gpu
        for node, fact in facts.items()
        for number, gpu in enumerate(fact["gpus"] or ())
        if not expected or len(fact["gpus"]) <= expected
    }


def wrong_products(facts):
    """A matrix product that is NaN or wrong, or that failed."""
    for node, fact in facts.items():
        for one in fact["products"]:
            if one["fault"]:
                yield node, "product", f"{one['fault']} ({one['device']})"


def slow_products(facts):
    """A matrix product that takes longer than on the same kind of device of the others."""
    for kind in ("cpu", "cuda"):
        times = {
            (node, one["device"]): one["seconds"]
            for node, fact in facts.items()
            for one in fact["products"]
            if one["device"].startswith(kind) and one["seconds"] and not one["fault"]
        }
        usual = _reference(times.values(), facts, min) if times else 0.0
        for (node, device), seconds in times.items():
            if seconds > SLOW * usual:
                ms = f"{seconds * 1e3:.2f} ms, {_the_usual(facts)} is {usual * 1e3:.2f} ms"
                text = f"a matrix product takes {seconds / usual:.1f} times as long ({device}): {ms}"
                yield node, "slow", text


def copies(facts):
    """Copies between the GPUs of a node that are wrong, or slower than those of the others."""
    speeds = [one["speed"] for fact in facts.values() for one in fact["copies"] if one["speed"]]
    for node, fact in facts.items():
        for one in fact["copies"]:
            if one["fault"]:
                yield node, "gpu-link", f"{one['pair']}: {one['fault']}"
            elif one["speed"] * SLOW_LINK < median(speeds):
                usual = _speed(median(speeds))
                yield node, "gpu-link", f"{one['pair']}: {_speed(one['speed'])}, the median is {usual}"


def memory(facts):
    """Host memory and /dev/shm that are nearly full, or far fuller than on the others."""
    free = {node: fact["memory"] for node, fact in facts.items()}
    for node, count in free.items():
        usual = _reference(free.values(), free, max)
        if 2 * count < usual:
            text = f"{_gib(count)} of memory are available, {_the_usual(free)} is {_gib(usual)}"
            yield node, "memory", text
    shm = {node: fact["shm"] for node, fact in facts.items() if fact["shm"] is not None}
    for node, count in shm.items():
        usual = _reference(shm.values(), shm, max)
        if count < _FULL or 10 * count < usual:
            text = f"shared memory (/dev/shm) has {_gib(count)} free, {_the_usual(shm)} is {_gib(usual)}"
            yield node, "shm", text


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


def latencies(offsets):
    """A connection to the first node with a much longer round trip than the others'."""
    usual = _reference([trip for _, trip in offsets.values()], offsets, min)
    for node, (_, trip) in offsets.items():
        if trip > max(LATENCY, 10 * usual):
            text = f"a round trip takes {trip * 1e3:.0f} ms, {_the_usual(offsets)} is {usual * 1e3:.1f} ms"
            yield node, "latency", text


def names(facts, owners):
    """Host names that do not resolve: the owner's fault if most nodes fail, else the resolver's."""
    failed = {name: [node for node, fact in facts.items() if name in fact["unresolved"]] for name in owners}
    for name, nodes in failed.items():
        if 2 * len(nodes) > len(facts):
            if any(2 * len(others) <= len(facts) for others in failed.values()):
                yield owners[name], "dns", f"its name does not resolve on {_of(len(nodes), len(facts))}"
        else:
            for node in nodes:
                yield node, "dns", f"cannot resolve {name}, which the others resolve"


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


def ports(faults, host, port, first):
    """The port where ranks meet; `faults` are the results of the other nodes."""
    failed = {node: fault for node, fault in faults.items() if fault}
    if failed and len(failed) == len(faults):
        fault = next(iter(failed.values()))
        yield first, "port", f"no other node reaches its port {port}: {fault}"
    for node, fault in failed.items():
        if len(failed) < len(faults) or len(faults) == 1:
            yield node, "port", f"cannot reach port {port} of {host}: {fault}"


def links(pairs, floor):
    """Nodes of which every connection is slow or broken; `pairs` are the results by (node, node)."""
    slow = {pair for pair, _ in _slow(pairs, floor)}
    return sorted(node for node in {node for pair in pairs for node in pair} if _all_slow(node, pairs, slow))


def _all_slow(node, pairs, slow):
    return all(pair in slow for pair in pairs if node in pair)


def link_texts(pairs, floor):
    """What is wrong with each slow connection, by pair."""
    return dict(_slow(pairs, floor))


def _slow(pairs, floor):
    speeds = [result["speed"] for result in pairs.values() if "speed" in result]
    usual = median(speeds) if speeds else 0.0
    for pair, result in pairs.items():
        if "error" in result:
            yield pair, result["error"]
        elif result["speed"] * SLOW_LINK < usual:
            yield pair, f"{_speed(result['speed'])}, the median is {_speed(usual)}"
        elif result["speed"] < floor:
            yield pair, f"{_speed(result['speed'])}, less than the {_speed(floor)} that this site demands"


def _reference(values, nodes, best):
    """The value to compare with: the median, or of two nodes, where it is between both, the better one."""
    return best(values) if len(nodes) == 2 else median(values)


def _the_usual(nodes):
    return "the better one" if len(nodes) == 2 else "the median"


def _count(value):
    return value if isinstance(value, int) else len(value)


def _names(cards):
    return " and ".join(sorted({card["name"] for card in cards}))


def _usual(values):
    """The most frequent value."""
    found = list(values.values())
    return max(sorted(set(found), reverse=True), key=found.count)


def _counted(count, what):
    return f"{count} {what}{'' if count == 1 else 's'}"


def _of(count, whole):
    return f"{count} of {_counted(whole, 'node')}"


def _speed(count):
    return f"{count / 1e6:.1f} MB/s"


def _gib(count):
    return f"{count / _GIB:.2f} GiB"
