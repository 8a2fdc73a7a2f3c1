"""Identify and end processes by id, through /proc."""

import os
import signal
import socket
import stat
import struct
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
LAST = 10.0
"Seconds that a killed process has to end; one that waits for a disk or for a CPU does not end at once."


def command_line(pid: int) -> str:
    """A process's command line; empty if it has ended or is a zombie."""
    with suppress(OSError):
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def family(pid: int) -> list[int]:
    """A process and all its descendants, parents first."""
    children: dict[int, list[int]] = {}
    for child, parent in _parents():
        children.setdefault(parent, []).append(child)
    found = [pid]
    for member in found:
        found += children.get(member, [])
    return found


def with_any(texts: Iterable[str]) -> list[int]:
    """The processes whose command line contains one of the texts."""
    texts = tuple(texts)
    pids = (int(entry.name) for entry in PROC.glob("[0-9]*"))
    return [pid for pid in pids if any(text in command_line(pid) for text in texts)]


def listener(path: Path) -> int | None:
    """The process that listens on a socket file; None if no process does."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
        if stat.S_ISSOCK(path.stat().st_mode):
            probe.settimeout(1)
            probe.connect(str(path))
            peer = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return int(struct.unpack("3i", peer)[0])
    return None


def end(pids: Iterable[int], grace: float) -> None:
    """Terminate processes, and kill those that are left after `grace` seconds."""
    left = _left_after(signal.SIGTERM, list(pids), grace)
    _left_after(signal.SIGKILL, left, LAST)


def _left_after(number: signal.Signals, pids: list[int], seconds: float) -> list[int]:
    """The processes that a signal has not ended within some seconds."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    deadline = time.monotonic() + seconds
    while (pids := [pid for pid in pids if command_line(pid)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return pids


def _parents() -> Iterator[tuple[int, int]]:
    for entry in PROC.glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name in parentheses may contain anything, even parentheses.
            fields = entry.read_text(errors="replace").rpartition(")")[2].split()
            yield int(entry.parent.name), int(fields[1])
