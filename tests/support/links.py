"""A bad link: a TCP proxy that cuts or stalls each connection at a chosen byte."""

import select
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

What = Literal["cut", "stall"]


@dataclass(frozen=True)
class Fault:
    """What happens to one connection after a number of bytes from the server, or to it."""

    what: What
    at: int
    upwards: bool = False
    seconds: float | None = None
    "After which a connection that stalls is cut; when the link ends if None."


@dataclass
class Link:
    """A running proxy. Each new connection has the next fault; after the last one, none."""

    to: int
    faults: list[Fault] = field(default_factory=list)
    struck: int = 0
    "How many faults have happened."
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    _over: threading.Event = field(default_factory=threading.Event)

    @property
    def port(self) -> int:
        port: int = self.listener.getsockname()[1]
        return port

    def accept(self) -> None:
        with suppress(OSError):  # the listener was closed
            while True:
                client = self.listener.accept()[0]
                fault = self.faults.pop(0) if self.faults else None
                threading.Thread(target=self._carry, args=(client, fault), daemon=True).start()

    def _carry(self, client: socket.socket, fault: Fault | None) -> None:
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", self.to)) as server:
            passed = {client: 0, server: 0}
            while not self._over.is_set():
                for source in select.select([client, server], [], [], 0.2)[0]:
                    target = server if source is client else client
                    data = source.recv(_left(fault, source is client, passed[source]))
                    if not data:
                        return
                    target.sendall(data)
                    passed[source] += len(data)
                    if fault and fault.upwards == (source is client) and passed[source] >= fault.at:
                        self._strike(fault, client, server)
                        return

    def _strike(self, fault: Fault, *sockets: socket.socket) -> None:
        self.struck += 1
        if fault.what == "stall":
            self._over.wait(fault.seconds)
        for one in sockets:  # at once, and with a reset
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def close(self) -> None:
        self._over.set()
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def _left(fault: Fault | None, upwards: bool, passed: int) -> int:
    """How many bytes may pass at once, so that the fault happens at its exact byte."""
    return min(65536, fault.at - passed) if fault and fault.upwards == upwards else 65536


@contextmanager
def link(to: int, *faults: Fault) -> Iterator[Link]:
    """Start a bad link to a port; it ends with the block."""
    running = Link(to, list(faults))
    thread = threading.Thread(target=running.accept, daemon=True)
    thread.start()
    try:
        yield running
    finally:
        running.close()
        thread.join(10)
