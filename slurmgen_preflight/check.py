"""All checks of the nodes, one after another; a node that is lost in one takes no part in the next."""

import os

import judge
import judge_gpus
import judge_network
import verdict
from links import AGAIN, Links
from nodes import FACTS

_ROUNDS = 6
"Round trips for the clocks; the shortest one counts."
_ALL_NAMES, _NEXT_NAMES = 64, 3
"Nodes, up to which each resolves the names of all; of more, each resolves some, in a ring."


class Check:
    """What the nodes found out, and the faults in it as (node, check, text)."""

    def __init__(self, names, nodes, first, port, folder):
        self.findings, self.unwritable = [], None
        self._names, self._nodes, self._folder = names, nodes, folder
        self._first, self._port = first, port
        self._facts, self._offsets, self._speeds = {}, {}, {}

    def has_reasons(self):
        """Whether a node left a file that says why it does not connect."""
        return any(_text(self._folder / f"{node}.failed") for node in range(len(self._names)))

    def run(self, gpus, floor):
        """Run the checks.

        Args:
            gpus: GPUs of the job on each node; None if unknown.
            floor: the bytes per second that each connection must have.
        """
        self._name_missing()
        self._examine(gpus)
        self._see_files()
        self._compare_clocks()
        self._reach_port()
        links = Links(self._names, self._nodes, self._first, floor)
        self._add(links.measure())
        self._speeds = links.speeds
        self._add(self._nodes.faults)

    def summaries(self):
        """What was found out about each node, for its line."""
        return {
            node: verdict.summary(fact, self._offsets.get(node), self._speeds.get(node))
            for node, fact in self._facts.items()
        }

    def _add(self, findings):
        """Add faults: the first one of each check of a node."""
        for finding in findings:
            if finding[:2] not in [known[:2] for known in self.findings]:
                self.findings.append(finding)

    def _name_missing(self):
        """The nodes that did not connect, with the reason that they left in the shared folder."""
        missing = sorted(set(range(len(self._names))) - set(self._nodes.numbers))
        reasons = {node: _text(self._folder / f"{node}.failed") for node in missing}
        failed = [node for node in missing if reasons[node]]
        if len(self._names) > 2 and 2 * len(failed) > len(self._names):
            self._add([(0, "port", f"{len(failed)} of {len(self._names)} nodes {reasons[failed[0]]}")])
            missing = [node for node in missing if node not in failed]
        text = "its check did not start, or cannot connect"
        self._add((node, "peer", reasons[node] or text) for node in missing)

    def _examine(self, gpus):
        request = {"do": "facts", "with_gpus": gpus != 0}
        asked = {node: to_resolve(self._names, node) for node in self._nodes.numbers}
        requests = {node: dict(request, names=names) for node, names in asked.items()}
        self._facts = facts = self._nodes.ask(requests, "examining itself", FACTS)
        if not facts:
            return
        self._measure_slow_again()
        for judged in (judge_gpus.counts, judge_gpus.unlisted, judge_gpus.health, judge_gpus.limits):
            self._add(judged(facts, gpus))
        for judged in (judge_gpus.without_torch, judge_gpus.wrong_products, judge_gpus.copies):
            self._add(judged(facts))
        self._add(judge.shared_memory(facts))
        self._add(judge.memory(facts, _requested_memory()))
        self._add(judge.names(facts, asked, {name: node for node, name in enumerate(self._names)}))
        self._add(judge_gpus.slow_products(facts))
        self._print_topology()

    def _measure_slow_again(self):
        """Measure the products of nodes that seem slow once more, while the others are idle."""
        for _ in range(AGAIN):
            slow = {node for node, _, _ in judge_gpus.slow_products(self._facts)}
            if not slow:
                return
            requests = {node: {"do": "products"} for node in slow}
            for node, answer in self._nodes.ask(requests, "multiplying again", FACTS).items():
                self._facts[node] = _with_products(self._facts[node], answer["products"])

    def _print_topology(self):
        node = next((node for node, fact in sorted(self._facts.items()) if len(fact["gpus"] or ()) > 1), None)
        if node is not None:
            answer = self._nodes.ask({node: {"do": "topology"}}, "listing its links", FACTS).get(node, {})
            verdict.topology(self._names[node], answer.get("text", ""))

    def _see_files(self):
        written = [node for node, fact in self._facts.items() if not fact["unwritable"]]
        if self._facts and not written:  # such as a quota: other nodes would not help
            self.unwritable = next(iter(self._facts.values()))["unwritable"]
            return
        requests = {node: {"do": "see", "numbers": _following(written, node)} for node in self._nodes.numbers}
        answers = self._nodes.ask(requests, "looking at the job's folder")
        unseen = {node for node in written if not (self._folder / str(node)).exists()}
        missing = {node: answer["missing"] for node, answer in answers.items()}
        self._add(judge.shared_folder(self._facts, missing, unseen, 0))

    def _compare_clocks(self):
        self._read_clocks(self._nodes.numbers)
        for _ in range(AGAIN if self._offsets else 0):
            self._read_clocks([node for node, _, _ in judge_network.latencies(self._offsets)])
        if self._offsets:
            self._add(judge.clocks(self._offsets))
            self._add(judge_network.latencies(self._offsets))

    def _read_clocks(self, numbers):
        """The difference of each clock from this one, and the shortest round trip."""
        for _ in range(_ROUNDS if numbers else 0):
            requests = {node: {"do": "time"} for node in numbers}
            for node, answer in self._nodes.ask(requests, "reading its clock").items():
                sent, received = self._nodes.trips[node]
                found = answer["time"] - (sent + received) / 2, received - sent
                self._offsets[node] = min(found, self._offsets.get(node, found), key=lambda one: one[1])

    def _reach_port(self):
        """Connect to the port of the ranks' rendezvous, which the first node opens as rank 0 will."""
        port, others = self._port, [node for node in self._nodes.numbers if node]
        if not port or 0 not in self._nodes.numbers:
            return
        answers = self._nodes.ask({0: {"do": "listen", "port": port}}, "listening")
        self._add(judge_network.listening(answers, port))
        if 0 not in answers or answers[0]["fault"]:
            return
        request = {"do": "reach", "host": self._first, "port": port}
        answers = self._nodes.ask(dict.fromkeys(others, request), "connecting to the first node")
        faults = {node: answer["fault"] for node, answer in answers.items()}
        self._add(judge_network.ports(faults, self._first, port, 0))


def to_resolve(names, node, at_once=_ALL_NAMES):
    """The names that a node must resolve: of many, that of the first node, its own, and the next ones."""
    if len(names) <= at_once:
        return names
    ring = [(node + step) % len(names) for step in range(_NEXT_NAMES + 1)]
    return [names[number] for number in dict.fromkeys([0, *ring])]


def _requested_memory():
    """Bytes of memory that the job requests on each node; None if unknown."""
    text = os.environ.get("SLURM_MEM_PER_NODE", "")
    return (int(text) << 20 if text.isdigit() else 0) or None


def _text(path):
    try:
        return path.read_text()
    except OSError:
        return ""


def _following(numbers, node):
    """The two nodes that follow, in a ring."""
    ring = [number for number in numbers if number > node] + [number for number in numbers if number < node]
    return ring[:2]


def _with_products(fact, products):
    """The facts after a further measurement: for each device the fault of either, else the better time."""
    return dict(fact, products=[_worst_or_faster(*pair) for pair in zip(fact["products"], products)])


def _worst_or_faster(first, second):
    faulty = [one for one in (first, second) if one["fault"]]
    return faulty[0] if faulty else min(first, second, key=lambda one: one["seconds"])
