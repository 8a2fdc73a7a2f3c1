"""New connections to the job's port: which of them are nodes? Any program on the network may connect."""

import selectors
import time

import wire

LIMIT = 10.0
"Seconds until a connection must have sent its greeting."
_WAIT = 0.2


class Greetings:
    """The connections that have not yet sent the token."""

    def __init__(self, server, token):
        server.setblocking(False)
        self._server, self._token = server, token
        self._ends, self.idle = {}, False
        self._selector = selectors.DefaultSelector()
        self._selector.register(server, selectors.EVENT_READ)

    def arrived(self):
        """The nodes that have greeted now, as (channel, greeting, host); a wrong greeting is dropped."""
        events = self._selector.select(_WAIT)
        self.idle = not events
        for key, _ in events:
            if key.fileobj is self._server:
                self._accept()
                continue
            channel, host = key.fileobj, key.data
            greeting = self._greeting(channel)
            if greeting:
                self._forget(channel)
                yield channel, greeting, host
        self._drop([channel for channel, end in self._ends.items() if time.monotonic() > end])

    def close(self):
        """Close the connections that have not greeted."""
        self._drop(list(self._ends))
        self._selector.close()

    def _accept(self):
        try:
            connection, address = self._server.accept()
        except OSError:
            return
        channel = wire.Channel(connection)
        self._ends[channel] = time.monotonic() + LIMIT
        self._selector.register(channel, selectors.EVENT_READ, address[0])

    def _greeting(self, channel):
        """The greeting with the token; None if it has not arrived, or is not one."""
        try:
            messages = channel.receive()
        except (EOFError, OSError):
            self._drop([channel])
            return None
        greeting = messages[0] if messages else None
        if messages and not self._is_right(greeting):
            self._drop([channel])
            return None
        return greeting

    def _is_right(self, greeting):
        return isinstance(greeting, dict) and greeting.get("token") == self._token

    def _drop(self, channels):
        for channel in channels:
            self._forget(channel)
            channel.close()

    def _forget(self, channel):
        del self._ends[channel]
        self._selector.unregister(channel)
