"""The part that runs in the batch script: start the nodes' part, ask the nodes, compare what they answer."""

import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import judge
import report
import wire
from nodes import FACTS, LONGEST, STEP, Nodes

_ROUNDS = 6
"Round trips for the clocks; the shortest one counts."
_AGAIN = 3
"Further measurements of a node that seems slow: other processes may have delayed it."
_ALL_NAMES = 64
"Nodes, up to which each resolves the names of all."
_END = 2.0
"Seconds for the nodes' programs to end."


class NotChecked(Exception):
    """Why the check has no result, which is not the fault of a node."""

    def __init__(self, text, status=1):
        super().__init__(text)
        self.status = status


def main(command, gpus, min_bandwidth, rendezvous):
    """Check the nodes; the exit status."""
    try:
        return _checked(command, gpus, min_bandwidth, rendezvous)
    except NotChecked as reason:
        sys.stderr.write(f"preflight: {reason}\n")
        return reason.status


def _checked(command, gpus, min_bandwidth, rendezvous):
    job = os.environ.get("SLURM_JOB_ID", "0")
    names = _names(os.environ.get("SLURM_JOB_NODELIST", "localhost"))
    folder = Path(f".preflight-{job}.d")
    _make(folder)
    check = Check(names, gpus, min_bandwidth * 1e6, rendezvous, folder)
    try:
        check.run(command)
    finally:
        shutil.rmtree(str(folder), ignore_errors=True)
    status = report.finish(names, check.findings, check.summaries(), Path(f".preflight-{job}.json"))
    if check.unwritable and not status:
        raise NotChecked(f"no node can write to the job's folder: {check.unwritable}")
    return status


def _make(folder):
    """Make the folder in which the nodes look for each other's files."""
    shutil.rmtree(str(folder), ignore_errors=True)
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise NotChecked(f"cannot write to the job's folder: {wire.reason(error)}") from None


def _names(nodelist):
    """The names of the nodes in Slurm's order."""
    if "[" not in nodelist:
        return nodelist.split(",")
    command = ["scontrol", "show", "hostnames", nodelist]
    try:
        reply = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=STEP)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotChecked(f"scontrol does not list the nodes of the job: {error}") from None
    return reply.stdout.decode().split()


def _start(command, address):
    """Start the command that starts the nodes' part."""
    try:
        return subprocess.Popen(command, env={**os.environ, wire.VARIABLE: address})
    except OSError as error:
        raise NotChecked(f"cannot start `{command[0]}`: {wire.reason(error)}") from None


class Check:
    """One run of all checks."""

    def __init__(self, names, gpus, floor, rendezvous, folder):
        self.findings, self.unwritable = [], None
        self._names, self._gpus, self._floor, self._folder = names, gpus, floor, folder
        self._token = secrets.token_hex(16)
        # Not from MASTER_ADDR, which a job without a rendezvous may inherit from the user's shell.
        host, _, port = rendezvous.rpartition(":")
        self._first, self._port = host or names[0], int(port or 0)
        self.nodes = Nodes(len(names), self._token, self._add)
        self._facts, self._offsets, self._speeds = {}, {}, {}

    def run(self, command):
        """Run the checks.

        Raises:
            NotChecked: no node could be checked.
        """
        server = wire.listener()
        port = server.getsockname()[1]
        address = f"{self._first} {port} {self._token} {self._folder}"
        process = _start(command, address)
        try:
            self.nodes.join(server, lambda: process.poll() is not None)
            if not self.nodes.numbers and not any(self._folder.iterdir()):
                raise NotChecked(*_no_node(command[0], process.poll()))
            self._name_missing()
            self._check()
        finally:
            self.nodes.close()
            server.close()
            _end(process)

    def _check(self):
        """All phases; a node that is lost in one takes no part in the next."""
        self._examine()
        self._see_files()
        self._compare_clocks()
        self._reach_port()
        self._measure_links()

    def _add(self, node, check, text):
        if (node, check) not in [finding[:2] for finding in self.findings]:
            self.findings.append((node, check, text))

    def _add_all(self, findings):
        for finding in findings:
            self._add(*finding)

    def _name_missing(self):
        """The nodes that did not connect, with the reason that they left in the shared folder."""
        missing = sorted(set(range(len(self._names))) - set(self.nodes.numbers))
        reasons = {node: _text(self._folder / f"{node}.failed") for node in missing}
        failed = [node for node in missing if reasons[node]]
        if len(self._names) > 2 and 2 * len(failed) > len(self._names):
            self._add(0, "port", f"{len(failed)} of {len(self._names)} nodes {reasons[failed[0]]}")
            missing = [node for node in missing if node not in failed]
        for node in missing:
            self._add(node, "peer", reasons[node] or "its check did not start, or cannot connect")

    def _examine(self):
        requests = {node: {"do": "facts", "names": self._to_resolve(node)} for node in self.nodes.numbers}
        self._facts = self.nodes.ask(requests, "examining itself", FACTS)
        facts = self._facts
        for judged in (judge.counts, judge.unlisted, judge.gpu_health, judge.gpu_limits):
            self._add_all(judged(facts, self._gpus))
        for judged in (judge.wrong_products, judge.copies, judge.memory):
            self._add_all(judged(facts))
        self._add_all(judge.names(facts, {name: node for node, name in enumerate(self._names)}))
        self._measure_slow_again()
        self._add_all(judge.slow_products(facts))
        self._print_topology()

    def _to_resolve(self, node):
        if len(self._names) <= _ALL_NAMES:
            return self._names
        return [self._names[0], self._names[node], self._names[(node + 1) % len(self._names)]]

    def _measure_slow_again(self):
        """Measure the products of nodes that seem slow once more, while the others are idle."""
        for _ in range(_AGAIN):
            slow = {node for node, _, _ in judge.slow_products(self._facts)}
            if not slow:
                return
            requests = {node: {"do": "products"} for node in slow}
            for node, answer in self.nodes.ask(requests, "multiplying again", FACTS).items():
                self._facts[node] = _faster(self._facts[node], answer["products"])

    def _print_topology(self):
        node = next((node for node, fact in sorted(self._facts.items()) if len(fact["gpus"] or ()) > 1), None)
        if node is not None:
            answer = self.nodes.ask({node: {"do": "topology"}}, "listing its links", FACTS).get(node, {})
            report.topology(self._names[node], answer.get("text", ""))

    def _see_files(self):
        written = [node for node, fact in self._facts.items() if not fact["unwritable"]]
        if self._facts and not written:  # such as a quota: other nodes would not help
            self.unwritable = next(iter(self._facts.values()))["unwritable"]
            return
        requests = {node: {"do": "see", "numbers": _following(written, node)} for node in self.nodes.numbers}
        answers = self.nodes.ask(requests, "looking at the job's folder")
        unseen = {node for node in written if not (self._folder / str(node)).exists()}
        missing = {node: answer["missing"] for node, answer in answers.items()}
        self._add_all(judge.shared_folder(self._facts, missing, unseen, 0))

    def _compare_clocks(self):
        self._read_clocks(self.nodes.numbers)
        for _ in range(_AGAIN):
            slow = [node for node, _, _ in judge.latencies(self._offsets)] if self._offsets else []
            self._read_clocks(slow)
        if self._offsets:
            self._add_all(judge.clocks(self._offsets))
            self._add_all(judge.latencies(self._offsets))

    def _read_clocks(self, numbers):
        """The difference of each clock from this one, and the shortest round trip."""
        for _ in range(_ROUNDS if numbers else 0):
            requests = {node: {"do": "time"} for node in numbers}
            for node, answer in self.nodes.ask(requests, "reading its clock").items():
                sent, received = self.nodes.trips[node]
                found = answer["time"] - (sent + received) / 2, received - sent
                self._offsets[node] = min(found, self._offsets.get(node, found), key=lambda one: one[1])

    def _reach_port(self):
        """Connect to the port of the ranks' rendezvous, which the first node opens as rank 0 will."""
        port = self._port
        others = [node for node in self.nodes.numbers if node]
        if not (port and others and 0 in self.nodes.numbers):
            return
        answer = self.nodes.ask({0: {"do": "listen", "port": port}}, "listening").get(0, {"fault": None})
        if answer["fault"]:
            self._add(0, "port", f"cannot listen on port {port}: {answer['fault']}")
            return
        request = {"do": "reach", "host": self._first, "port": port}
        answers = self.nodes.ask(dict.fromkeys(others, request), "connecting to the first node")
        faults = {node: answer["fault"] for node, answer in answers.items()}
        self._add_all(judge.ports(faults, self._first, port, 0))

    def _measure_links(self):
        """Transfer data in two rounds of pairs, so that a slow node is slow with two neighbours."""
        pairs = {}
        for number in range(2 if len(self.nodes.numbers) > 2 else 1):
            pairs.update(self._transfer(_pairs(self.nodes.numbers, number)))
        for pair, result in pairs.items():
            for node in pair:
                self._speeds[node] = max(result.get("speed", 0.0), self._speeds.get(node, 0.0))
        pairs = self._measure_slow_links_again(pairs)
        texts = judge.link_texts(pairs, self._floor)
        for node in judge.links(pairs, self._floor):
            other, text = next((pair, text) for pair, text in texts.items() if node in pair)
            name = self._names[other[1] if other[0] == node else other[0]]
            self._add(node, "link", f"its connection, measured with {name}: {text}")

    def _measure_slow_links_again(self, pairs):
        """Measure nodes that seem slow with one that does not, one after another; a good result counts."""
        for _ in range(_AGAIN):
            slow = judge.links(pairs, self._floor)
            good = [node for node in self.nodes.numbers if node not in slow]
            if not slow:
                return pairs
            again = [(node, good[0]) for node in slow if node in self.nodes.numbers] if good else list(pairs)
            for pair in again:
                pairs = _better(pairs, self._transfer([pair]))
        return pairs

    def _transfer(self, pairs):
        """The results of these pairs, of which each node is in one."""
        requests = {first: self._to(second) for first, second in pairs}
        answers = self.nodes.ask(requests, "transferring data", 2 * STEP)
        return {pair: answers[pair[0]] for pair in pairs if pair[0] in answers}

    def _to(self, node):
        # The first node may have connected by a loopback address.
        host = self._first if node == 0 else self.nodes.hosts[node]
        return {"do": "transfer", "host": host, "port": self.nodes.ports[node]}

    def summaries(self):
        """What was found out about each node, for its line."""
        return {
            node: report.summary(fact, self._offsets.get(node), self._speeds.get(node))
            for node, fact in self._facts.items()
        }


def _no_node(program, status):
    """Why no node was checked, and the exit status."""
    if status is None:
        return f"no node was checked: none has connected after {LONGEST:.0f} s, and `{program}` still ran", 1
    return f"no node was checked; `{program}` ended with {status}", status if status > 0 else 1


def _text(path):
    try:
        return path.read_text()
    except OSError:
        return ""


def _following(numbers, node):
    """The two nodes that follow, in a ring."""
    ring = [number for number in numbers if number > node] + [number for number in numbers if number < node]
    return ring[:2]


def _pairs(numbers, offset):
    """Neighbours in a ring, from an offset on; one of an odd number is left out."""
    ring = numbers[offset:] + numbers[:offset]
    return list(zip(ring[::2], ring[1::2]))


def _faster(fact, products):
    """The facts with the better time of each device."""
    pairs = zip(fact["products"], products)
    return dict(fact, products=[min(pair, key=lambda one: one["seconds"] or 0) for pair in pairs])


def _better(pairs, again):
    """The results with the better of both measurements of a pair."""
    merged = dict(pairs)
    for pair, result in again.items():
        merged[pair] = max(result, pairs.get(pair, result), key=lambda one: one.get("speed", 0.0))
    return merged


def _end(process):
    """Wait for the command that started the nodes; end it if it does not."""
    for stop in (lambda: None, process.terminate, process.kill):
        stop()
        try:
            process.wait(_END)
            return
        except subprocess.TimeoutExpired:
            pass
