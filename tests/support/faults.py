"""A network that breaks at a chosen byte, and an sbatch that breaks at a chosen step."""

import contextlib
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

DELAY = 0.3
Direction = Literal["up", "down"]


@dataclass(frozen=True)
class Fault:
    """What happens to a connection after a number of bytes in one direction."""

    kind: Literal["none", "cut", "stall", "delay"] = "none"
    direction: Direction = "up"
    at: int = 0


@dataclass
class Proxy:
    """A proxy for a server on the loopback; each of its connections has the `fault`."""

    target: int
    fault: Fault = Fault()
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    passed: dict[Direction, int] = field(default_factory=lambda: {"up": 0, "down": 0})
    "Bytes of the last connection."
    struck: bool = False
    "Whether the fault came about in the last connection."
    strikes: int = 0
    "How often it came about in all."
    once: bool = False
    "Whether it comes about in one connection only."

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def serve(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            self.passed, self.struck = {"up": 0, "down": 0}, False
            for source, sink, direction in ((client, server, "up"), (server, client, "down")):
                args = (source, sink, direction, self.fault)
                threading.Thread(target=self._carry, args=args, daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, direction: Direction, fault: Fault) -> None:
        mine = fault.kind != "none" and fault.direction == direction
        left = fault.at if mine else -1
        with contextlib.suppress(OSError):
            while part := source.recv(min(left, 65536) if left > 0 else 65536):
                if left == 0:
                    self.struck, self.strikes, left = True, self.strikes + 1, -1
                    self.fault = Fault() if self.once else self.fault
                    if not self._strike(fault, source, sink):
                        return
                sink.sendall(part)
                self.passed[direction] += len(part)
                left -= len(part) if left > 0 else 0
        _close(source, sink)

    def _strike(self, fault: Fault, source: socket.socket, sink: socket.socket) -> bool:
        """Break the connection; returns whether it continues."""
        if fault.kind == "delay":
            time.sleep(DELAY)
            return True
        if fault.kind == "stall":
            while source.recv(65536):  # until the client gives up
                pass
        _close(source, sink)
        return False


def _close(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@contextmanager
def proxy(target: int) -> Iterator[Proxy]:
    """A proxy that serves until the block ends."""
    running = Proxy(target)
    thread = threading.Thread(target=running.serve, daemon=True)
    thread.start()
    try:
        yield running
    finally:
        with contextlib.suppress(OSError):  # closing alone does not wake who accepts
            running.listener.shutdown(socket.SHUT_RDWR)
        running.listener.close()
        thread.join(10)


STEPS = {
    "killed before": "$kill; exit 1",
    "killed after": '"$real" "$@" >/dev/null; $kill; exit 1',
    "killed, and sbatch goes on": '$kill; sleep 1; exec "$real" "$@"',
    "hangs before": "exec sleep 30",
    "hangs after": '"$real" "$@" >/dev/null; exec sleep 30',
    "hangs after its answer": '"$real" "$@"; exec sleep 30',
    "times out before": 'echo "$timed_out" >&2; exit 1',
    "times out after": '"$real" "$@" >/dev/null; echo "$timed_out" >&2; exit 1',
    "says nothing": '"$real" "$@" >/dev/null; exit 0',
    "says nothing and does nothing": "exit 0",
    "warns": 'echo "sbatch: warning: 4711"; echo "sbatch: error: noise" >&2; exec "$real" "$@"',
}
"What sbatch does instead, once, if the test requests it."

_WRAPPER = """#!/bin/sh
real={real} timed_out='sbatch: error: Batch job submission failed: Socket timed out on send/recv operation'
for word; do case $word in --comment=*) key=${{word##*slurmgen:}} ;; esac; done
step=$(cat {folder}/"$key" 2>/dev/null)
rm -f {folder}/"$key"
# The program that calls us through `timeout`.
kill="kill -9 $(ps -o ppid= -p "$PPID")"
case $step in
{cases}
esac
exec "$real" "$@"
"""


@dataclass(frozen=True)
class Sbatch:
    """An sbatch before the real one, which obeys notes left in a folder."""

    folder: Path
    bin: Path

    def next_time(self, key: str, step: str) -> None:
        """Let the next submission of that key meet this step."""
        (self.folder / key).write_text(step)

    def met(self, key: str) -> bool:
        return not (self.folder / key).exists()


def sbatch(home: Path) -> Sbatch:
    """Put the wrapper into `home`/bin."""
    made = Sbatch(home / "faults", home / "bin")
    made.folder.mkdir()
    made.bin.mkdir()
    cases = "\n".join(f"'{name}') {commands} ;;" for name, commands in STEPS.items())
    text = _WRAPPER.format(real=shutil.which("sbatch"), folder=made.folder, cases=cases)
    (made.bin / "sbatch").write_text(text)
    (made.bin / "sbatch").chmod(0o755)
    return made
