"""What the job's log shows, and the file for slurmgen."""

import json
import sys
from contextlib import suppress

BAD = 79
"Exit status if the job cannot run on a node."
PORT_IN_USE = "port-in-use"
"The only check whose fault passes by itself: a node with no other fault is busy, not bad."
_NAMED = 8
"Nodes that the verdict names."


def finish(names, findings, summaries, path):
    """Print one line per node and the verdict, write the file, and return the exit status."""
    by_node = {
        node: [finding[1:] for finding in findings if finding[0] == node] for node in range(len(names))
    }
    for node, name in enumerate(names):
        texts = "; ".join(text for _, text in by_node[node])
        mark = "BUSY" if _is_busy(by_node[node]) else "BAD"
        healthy = f"healthy: {summaries[node]}" if node in summaries else "not checked"
        _say(f"{name}: {mark}: {texts}" if texts else f"{name}: {healthy}")
    _say(verdict(names, by_node, summaries))
    _write(path, as_json(names, by_node, summaries))
    return BAD if any(by_node.values()) else 0


def verdict(names, by_node, checked):
    """The result in words: the first finding of each bad node, and how many nodes were not checked."""
    bad = [node for node in by_node if by_node[node]]
    if not bad:
        return f"verdict: {_counted(len(names))}, all healthy"
    busy = all(_is_busy(by_node[node]) for node in bad)
    what = "; ".join(f"{names[node]}: {by_node[node][0][1]}" for node in bad[:_NAMED])
    more = f"; and {_counted(len(bad) - _NAMED)} more" if len(bad) > _NAMED else ""
    unchecked = len([node for node in by_node if not by_node[node] and node not in checked])
    more += f". Not checked: {_counted(unchecked)}" if unchecked else ""
    return (
        f"verdict: {len(bad)} of {_counted(len(names))} {'is' if len(bad) == 1 else 'are'} "
        f"{'busy' if busy else 'bad'}. {what}{more}. "
        "The training was not started; this is not an error of your code."
        + (" Submit the job again: each job has a port of its own." if busy else "")
    )


def as_json(names, by_node, checked):
    """The result for programs; "healthy" is null for a node that was not checked."""
    return {
        "schema": 1,
        "verdict": "bad" if any(by_node.values()) else "healthy",
        "nodes": [
            {
                "node": name,
                "healthy": False if by_node[node] else True if node in checked else None,
                "busy": _is_busy(by_node[node]),
                "findings": [{"check": check, "text": text} for check, text in by_node[node]],
            }
            for node, name in enumerate(names)
        ],
    }


def _is_busy(findings):
    return {check for check, _ in findings} == {PORT_IN_USE}


def summary(fact, offset, speed):
    """The facts of a healthy node in one line."""
    cards = fact["gpus"] or []
    unknown = "no GPU" if fact["gpus"] == [] else "GPUs unknown"
    parts = [f"{len(cards)} x {cards[0]['name']}" if cards else unknown]
    for one in fact["products"][:2]:
        parts += [f"product {one['seconds'] * 1e3:.2f} ms ({one['device']})"] if one["seconds"] else []
    parts += [f"{fact['memory']['free'] / (1 << 30):.0f} GiB of memory"]
    parts += [f"{speed / 1e6:.0f} MB/s"] if speed else []
    parts += [f"clock {offset[0]:+.3f} s"] if offset else []
    return ", ".join(parts)


def topology(name, text):
    """Print the links between the GPUs of one node."""
    if text:
        _say(f"links of {name}:")
        sys.stdout.write(text.rstrip() + "\n")


def _write(path, value):
    """Write the file at once, so that no reader sees a part of it."""
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(json.dumps(value) + "\n")
        part.replace(path)
    except OSError as error:
        sys.stderr.write(f"preflight: {path}: {error.strerror}\n")
        _remove(part)


def _remove(path):
    with suppress(OSError):
        path.unlink()


def _say(text):
    sys.stdout.write(f"preflight: {text}\n")
    sys.stdout.flush()


def _counted(count):
    return f"{count} node{'' if count == 1 else 's'}"
