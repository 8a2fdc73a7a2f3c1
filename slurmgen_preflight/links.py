"""The connections between the nodes, measured in pairs: a slow node is slow with two neighbours."""

import judge_network
from nodes import TRANSFER

AGAIN = 3
"Further measurements of a node that seems slow: other processes may have delayed it."


class Links:
    """Measures connections, and keeps the best speed of each node."""

    def __init__(self, names, nodes, first, floor):
        self.speeds = {}
        self._names, self._nodes, self._first, self._floor = names, nodes, first, floor

    def measure(self):
        """Transfer data in rounds of pairs; the nodes of which every connection is slow."""
        pairs = {}
        for one in rounds(self._nodes.numbers):
            pairs.update(self._transfer(one))
        for pair, result in pairs.items():
            for node in pair:
                self.speeds[node] = max(result.get("speed", 0.0), self.speeds.get(node, 0.0))
        pairs = self._measure_slow_again(pairs)
        texts = judge_network.link_texts(pairs, self._floor)
        for node in judge_network.links(pairs, self._floor):
            other, text = next((pair, text) for pair, text in texts.items() if node in pair)
            name = self._names[other[1] if other[0] == node else other[0]]
            yield node, "link", f"its connection, measured with {name}: {text}"

    def _measure_slow_again(self, pairs):
        """Measure nodes that seem slow with one that does not, one after another; a good result counts."""
        for _ in range(AGAIN):
            slow = judge_network.links(pairs, self._floor)
            good = [node for node in self._nodes.numbers if node not in slow]
            if not slow:
                return pairs
            again = [(node, good[0]) for node in slow if node in self._nodes.numbers] if good else list(pairs)
            for pair in again:
                pairs = _better(pairs, self._transfer([pair]))
        return pairs

    def _transfer(self, pairs):
        """The results of these pairs, of which each node is in one."""
        requests = {first: self._to(second) for first, second in pairs}
        answers = self._nodes.ask(requests, "transferring data", TRANSFER)
        return {pair: answers[pair[0]] for pair in pairs if pair[0] in answers}

    def _to(self, node):
        # The first node may have connected by a loopback address.
        host = self._first if node == 0 else self._nodes.hosts[node]
        return {"do": "transfer", "host": host, "port": self._nodes.ports[node]}


def rounds(numbers):
    """The pairs of neighbours in a ring, in rounds in which each node has one neighbour at most."""
    pairs = list(zip(numbers, numbers[1:] + numbers[:1]))
    if len(numbers) < 3:
        return [pairs[: len(numbers) // 2]]
    last = [pairs.pop()] if len(pairs) % 2 else []  # which closes a ring of an odd number
    return [one for one in (pairs[::2], pairs[1::2], last) if one]


def _better(pairs, again):
    """The results with the better of both measurements of a pair."""
    merged = dict(pairs)
    for pair, result in again.items():
        merged[pair] = max(result, pairs.get(pair, result), key=lambda one: one.get("speed", 0.0))
    return merged
