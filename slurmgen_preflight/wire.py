"""Messages between the job and its nodes: one JSON object per line, over TCP."""

import json
import socket

VARIABLE = "SLURMGEN_PREFLIGHT"
"The address of the job for its nodes, as HOST PORT TOKEN. Only the user's own processes see it."
_LONGEST = 1 << 20


class Channel:
    """One connection."""

    def __init__(self, connection):
        self.socket = connection
        self._buffer = b""

    def fileno(self):
        """For selectors."""
        return self.socket.fileno()

    def send(self, message):
        """Send one message."""
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self):
        """Messages that have arrived; at least some bytes must have.

        Raises:
            EOFError: the peer sends no more, or something else than messages.
        """
        received = self.socket.recv(65536)
        if not received or len(self._buffer) > _LONGEST:
            raise EOFError
        *lines, self._buffer = (self._buffer + received).split(b"\n")
        try:
            return [json.loads(line.decode()) for line in lines]
        except (ValueError, RecursionError):
            raise EOFError from None

    def messages(self):
        """All messages until the peer closes the connection."""
        while True:
            try:
                received = self.receive()
            except (EOFError, OSError):
                return
            yield from received

    def close(self):
        """Close the connection."""
        self.socket.close()


def listener(port=0):
    """A socket that accepts connections to a port; 0: any free port.

    Raises:
        OSError: the port is in use.
    """
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind(("", port))
        server.listen(1024)
    except OSError:
        server.close()
        raise
    return server


def reason(error):
    """Why a connection failed, in words."""
    if isinstance(error, socket.timeout):
        return "timed out"
    return (getattr(error, "strerror", None) or str(error)).lower()
