"""Which nodes have a bad connection? Pure functions, as in judge.py."""

from operator import itemgetter
from statistics import median

from compare import SLOW_LINK, reference, speed_text, the_usual
from verdict import PORT_IN_USE

LATENCY = 0.02
"Seconds of a round trip, below which no difference counts."


def latencies(offsets):
    """A connection to the first node with a much longer round trip than the others'."""
    usual = reference([trip for _, trip in offsets.values()], offsets, min)
    for node, (_, trip) in offsets.items():
        if trip > max(LATENCY, 10 * usual):
            text = f"a round trip takes {trip * 1e3:.0f} ms, {the_usual(offsets)} is {usual * 1e3:.1f} ms"
            yield node, "latency", text


def listening(answers, port):
    """The port where ranks meet, on the first node; that another program uses it passes with the program."""
    for node, answer in answers.items():
        if answer["in_use"]:
            yield node, PORT_IN_USE, f"another program uses port {port}, where the ranks would meet"
        elif answer["fault"]:
            yield node, "port", f"cannot listen on port {port}: {answer['fault']}"


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
    speeds = [(node, result["speed"]) for pair, result in pairs.items() if "speed" in result for node in pair]
    best = dict(sorted(speeds, key=itemgetter(1)))
    usual = median(best.values()) if best else 0.0  # of three pairs, a slow node is in two
    for pair, result in pairs.items():
        speed = result.get("speed", 0.0)
        if "error" in result:
            yield pair, result["error"]
        elif speed * SLOW_LINK < usual:
            yield pair, f"{speed_text(speed)}, the median is {speed_text(usual)}"
        elif speed < floor:
            yield pair, f"{speed_text(speed)}, less than the {speed_text(floor)} that this site demands"
