"""Ports of the loopback interface, of which each process of a test run has its own.

The kernel gives those from 32768 on to any socket that names none: another program may take one before the
server of a test listens.
"""

import os
import random
import socket
from contextlib import suppress

FIRST, END = 20000, 32000


def share(first: int, end: int) -> range:
    """The part of a range of ports that belongs to this process of pytest-xdist."""
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % count
    size = (end - first) // count
    return range(first + number * size, first + (number + 1) * size)


def free_port() -> int:
    """A port on which no process listens."""
    for port in random.sample(share(FIRST, END), 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no port is free")
