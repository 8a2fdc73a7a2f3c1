"""Which nodes have bad GPUs, or compute wrong or slow? Pure functions, as in judge.py."""

from statistics import median

from compare import SLOW_LINK, counted, reference, speed_text, the_usual
from product import PLAIN

SLOW = 2.0
"A product is too slow from this multiple of the median on."


def counts(facts, expected):
    """GPUs that are missing, of another type, or that PyTorch does not see.

    If the number of the job is known, more on other nodes are not a fault. If PyTorch sees none on any node,
    that is the fault of PyTorch.
    """
    for key, seen in (("gpus", ""), ("torch_gpus", " for PyTorch")):
        found = {node: _count(fact[key]) for node, fact in facts.items() if fact[key] is not None}
        for node, count in found.items():
            usual = _usual(found)
            wanted = min(expected or usual, usual) if key == "torch_gpus" else expected or usual
            if count < wanted:
                yield node, "gpu-count", f"{counted(count, 'GPU')}{seen}, {_but(count, usual, expected)}"
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


def health(facts, expected):
    """Uncorrected memory errors, slowdown by hardware, memory in use."""
    for (node, number), gpu in _cards(facts, expected).items():
        if gpu.get("ecc"):
            yield node, "gpu-ecc", f"GPU {number} has {gpu['ecc']:.0f} uncorrected memory errors"
        if gpu.get("slowdown"):
            yield node, "gpu-clock", f"the hardware slows GPU {number} down: heat or power supply"
        if (gpu.get("memory_used") or 0) > 0.1 * (gpu.get("memory_total") or float("inf")):
            used = f"{gpu['memory_used'] / 1024:.1f} of {gpu['memory_total'] / 1024:.1f} GiB"
            yield node, "gpu-memory", f"{used} of GPU {number} are in use before the job"


def limits(facts, expected):
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


def without_torch(facts):
    """PyTorch that cannot be imported, although at least half of the nodes have it."""
    faults = {node: fact["torch_fault"] for node, fact in facts.items() if fact["torch_fault"]}
    for node, fault in faults.items():
        if 2 * len(faults) <= len(facts):
            yield node, "torch", f"PyTorch cannot be imported, which the others can: {fault}"


def wrong_products(facts):
    """A matrix product that is NaN or wrong, or that failed."""
    for node, fact in facts.items():
        for one in fact["products"]:
            if one["fault"]:
                yield node, _check("product", one["device"]), f"{one['fault']} ({one['device']})"


def slow_products(facts):
    """A matrix product that takes longer than on the same kind of device of the others."""
    for kind in ("cpu", "cuda", PLAIN):
        times = {
            (node, one["device"]): one["seconds"]
            for node, fact in facts.items()
            for one in fact["products"]
            if one["device"].startswith(kind) and one["seconds"] and not one["fault"]
        }
        usual = reference(times.values(), facts, min) if times else 0.0
        for (node, device), seconds in times.items():
            if seconds > SLOW * usual:
                ms = f"{seconds * 1e3:.2f} ms, {the_usual(facts)} is {usual * 1e3:.2f} ms"
                text = f"a matrix product takes {seconds / usual:.1f} times as long ({device}): {ms}"
                yield node, _check("slow", device), text


def copies(facts):
    """Copies between the GPUs of a node that are wrong, or slower than those of the others."""
    speeds = [one["speed"] for fact in facts.values() for one in fact["copies"] if one["speed"]]
    for node, fact in facts.items():
        for one in fact["copies"]:
            if one["fault"]:
                yield node, "gpu-link", f"{one['pair']}: {one['fault']}"
            elif one["speed"] * SLOW_LINK < median(speeds):
                usual = speed_text(median(speeds))
                yield node, "gpu-link", f"{one['pair']}: {speed_text(one['speed'])}, the median is {usual}"


def _check(name, device):
    """The name of a check of a device: those of GPUs need PyTorch."""
    return f"gpu-{name}" if device.startswith("cuda") else name


def _count(value):
    return value if isinstance(value, int) else len(value)


def _names(cards):
    return " and ".join(sorted({card["name"] for card in cards}))


def _usual(values):
    """The most frequent value."""
    found = list(values.values())
    return max(sorted(set(found), reverse=True), key=found.count)
