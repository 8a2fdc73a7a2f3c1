"""The connections to the nodes: requests to many at once, with time limits, and which nodes are lost."""

import selectors
import time
from typing import NamedTuple

from greetings import Greetings


class Limit(NamedTuple):
    """How long nodes may take, in seconds."""

    after_half: float
    "Longer than half of the nodes."
    longest: float
    "For half of the nodes, and for one that is alone."


JOIN, FACTS = Limit(25.0, 300.0), Limit(20.0, 300.0)
"To start, and to examine itself: a cold import of PyTorch may take long on all nodes."
STEP, TRANSFER = Limit(10.0, 60.0), Limit(20.0, 60.0)
"For other requests, and to transfer data."


class Nodes:
    """The nodes that are connected, by number."""

    def __init__(self, count, token):
        self.hosts, self.ports, self.trips, self.faults = {}, {}, {}, []
        self._count, self._token = count, token
        self._channels = {}
        self._selector = selectors.DefaultSelector()

    @property
    def numbers(self):
        """The nodes, sorted."""
        return sorted(self._channels)

    @property
    def are_complete(self):
        """Whether no node is lost."""
        return len(self._channels) == self._count

    def join(self, server, has_ended):
        """Accept connections until all nodes have joined, or the time is over."""
        clock, greetings = _Clock(self._count, JOIN), Greetings(server, self._token)
        while len(self._channels) < self._count and not clock.is_over(len(self._channels)):
            ended = has_ended()  # before the last greetings are read
            for channel, greeting, host in greetings.arrived():
                self._add(channel, greeting, host)
            if ended and greetings.idle:
                break
        greetings.close()

    def _add(self, channel, greeting, host):
        channel.socket.settimeout(STEP.after_half)
        number = greeting["node"]
        self._channels[number], self.hosts[number], self.ports[number] = channel, host, greeting["port"]
        self._selector.register(channel, selectors.EVENT_READ, number)

    def ask(self, requests, what, limit=STEP):
        """The answers to a request of each node; a node without one is lost.

        Args:
            requests: the request by node.
            what: what the nodes do, for the message about a lost one.
            limit: how long they may take.
        """
        answers, sent = {}, {}
        for number, request in requests.items():
            if number in self._channels:
                sent[number] = time.time()
                self._send(number, request, what)
        clock = _Clock(len(sent), limit)
        while set(sent) & set(self._channels) - set(answers):
            if clock.is_over(len(answers)):
                break
            for number, answer in self._received(what):
                self.trips[number] = sent.get(number), time.time()
                answers[number] = answer
        for number in set(sent) & set(self._channels) - set(answers):
            self._drop(number, f"{clock.text}: {what}")
        return self._without_errors(answers, what)

    def close(self):
        """Close all connections, which ends the nodes' programs."""
        for channel in self._channels.values():
            channel.close()

    def _send(self, number, request, what):
        try:
            self._channels[number].send(request)
        except OSError:
            self._drop(number, f"its check ended: {what}")

    def _received(self, what):
        for key, _ in self._selector.select(0.1):
            try:
                for message in key.fileobj.receive():
                    yield key.data, message
            except (EOFError, OSError):
                self._drop(key.data, f"its check ended: {what}")

    def _without_errors(self, answers, what):
        good = {}
        for number, answer in sorted(answers.items()):
            if "failed" in answer:
                self.faults.append((number, "check", f"{what}: {answer['failed']}"))
            else:
                good[number] = answer
        return good

    def _drop(self, number, text):
        channel = self._channels.pop(number)
        self._selector.unregister(channel)
        channel.close()
        self.faults.append((number, "peer", text))


class _Clock:
    """The time limit of a phase: some seconds after half of the nodes are done."""

    def __init__(self, count, limit):
        self._half, self._limit = (count + 1) // 2, limit
        self._end = time.monotonic() + limit.longest
        self._half_is_done = False

    @property
    def text(self):
        """The limit that is over."""
        if self._half_is_done:
            return f"no answer for {self._limit.after_half:.0f} s after the others"
        return f"no answer for {self._limit.longest:.0f} s"

    def is_over(self, done):
        """Whether the time is over, when so many nodes are done."""
        if done >= self._half and not self._half_is_done:
            self._half_is_done = True
            self._end = time.monotonic() + self._limit.after_half
        return time.monotonic() > self._end
