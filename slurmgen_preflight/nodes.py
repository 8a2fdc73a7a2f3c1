"""The connections to the nodes: requests to many at once, with time limits, and which nodes are lost."""

import selectors
import time

from greetings import Greetings

JOIN, FACTS, STEP = 25.0, 20.0, 10.0
"Seconds that a node may take longer than half of the nodes: to start, to examine itself, for other requests."
LONGEST = 300.0
"Seconds until half of the nodes must have answered; a cold import of PyTorch may take long on all."


class Nodes:
    """The nodes that are connected, by number."""

    def __init__(self, count, token, lost):
        self.hosts, self.ports, self.trips = {}, {}, {}
        self._count, self._token, self._lost = count, token, lost
        self._channels = {}
        self._selector = selectors.DefaultSelector()

    @property
    def numbers(self):
        """The nodes, sorted."""
        return sorted(self._channels)

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
        channel.socket.settimeout(STEP)
        number = greeting["node"]
        self._channels[number], self.hosts[number], self.ports[number] = channel, host, greeting["port"]
        self._selector.register(channel, selectors.EVENT_READ, number)

    def ask(self, requests, what, limit=STEP):
        """The answers to a request of each node; a node without one is lost.

        Args:
            requests: the request by node.
            what: what the nodes do, for the message about a lost one.
            limit: seconds that a node may take longer than half of them.
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
            self._drop(number, f"no answer for {limit:.0f} s after the others: {what}")
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
                self._lost(number, "check", f"{what}: {answer['failed']}")
            else:
                good[number] = answer
        return good

    def _drop(self, number, text):
        channel = self._channels.pop(number)
        self._selector.unregister(channel)
        channel.close()
        self._lost(number, "peer", text)


class _Clock:
    """The time limit of a phase: some seconds after half of the nodes are done."""

    def __init__(self, count, limit):
        self._half, self._limit = (count + 1) // 2, limit
        self._end = time.monotonic() + LONGEST
        self._half_is_done = False

    def is_over(self, done):
        """Whether the time is over, when so many nodes are done."""
        if done >= self._half and not self._half_is_done:
            self._half_is_done = True
            self._end = time.monotonic() + self._limit
        return time.monotonic() > self._end
