"""A channel of paramiko as bytes in both directions."""

import contextlib

import paramiko

from slurmgen.remote.duplex import PART

_BROKEN = (OSError, EOFError, paramiko.SSHException)


class Stream:
    """See Duplex."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel
        channel.settimeout(None)

    def read(self) -> bytes:
        """See Duplex."""
        try:
            return self._channel.recv(PART)
        except _BROKEN:
            return b""

    def write(self, part: bytes) -> None:
        """See Duplex."""
        self._channel.sendall(part)

    def end(self) -> None:
        """See Duplex."""
        with contextlib.suppress(*_BROKEN):
            self._channel.shutdown_write()

    def close(self) -> None:
        """See Duplex."""
        with contextlib.suppress(*_BROKEN):
            self._channel.close()
