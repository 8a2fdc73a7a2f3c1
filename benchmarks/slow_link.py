"""A network link with a delay, in its own network namespace: a tun device that returns all packets.

A connection to FAR reaches the server at NEAR in this namespace over real TCP: each packet comes back
with the two addresses swapped, half the delay later. netem would do it too, where the kernel has it.
"""

import fcntl
import os
import select
import struct
import subprocess
import sys
import threading
import time
from collections import deque

NEAR, FAR = "10.9.0.1", "10.9.0.2"
MTU = 9000
# From linux/if_tun.h.
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_MARK = "SLURMGEN_BENCH_NAMESPACE"
_IPV4, _ADDRESSES = 4, 12


def enter() -> None:
    """Continue in a new network namespace, unless already in one. Needs root."""
    if os.environ.get(_MARK) is None:
        os.environ[_MARK] = "yes"
        words = ["unshare", "--net", sys.executable, *sys.argv]
        os.execvp(words[0], words)  # noqa: S606 (no shell is needed)
    _ip("link set lo up")


def mirror(round_trip: float) -> None:
    """Create the link. A thread returns its packets with a delay of `round_trip` seconds per round trip."""
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH", b"mirror", _IFF_TUN | _IFF_NO_PI))
    _ip(f"addr add {NEAR}/24 dev mirror")
    _ip(f"link set mirror mtu {MTU} txqueuelen 10000 up")
    threading.Thread(target=_turn, args=(device, round_trip / 2), daemon=True).start()


def _ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True)


def _turn(device: int, seconds: float) -> None:
    waiting: deque[tuple[float, bytes]] = deque()
    while True:
        left = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        if select.select([device], [], [], left)[0]:
            packet = os.read(device, MTU)
            if packet[0] >> 4 == _IPV4:
                waiting.append((time.monotonic() + seconds, _swapped(packet)))
        while waiting and waiting[0][0] <= time.monotonic():
            os.write(device, waiting.popleft()[1])


def _swapped(packet: bytes) -> bytes:
    """The packet with source and destination swapped, which keeps its checksums valid."""
    source, target, rest = packet[_ADDRESSES : _ADDRESSES + 4], packet[_ADDRESSES + 4 :][:4], packet[20:]
    return packet[:_ADDRESSES] + target + source + rest
