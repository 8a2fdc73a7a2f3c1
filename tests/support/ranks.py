"""Runs programs as users do: each rank a process, on loopback, without a network or variables of a launcher.

Their Python is that of fork_server.py, which has imported PyTorch; `cold` programs start Python itself.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO
from uuid import uuid4

from tests.conftest import AT_EXIT, THREADS
from tests.support.fork_server import warm
from tests.support.ports import free_port

OUTER = re.compile(
    r"SLURM|SBATCH|SRUN|PMI|TORCH(?!INDUCTOR_CACHE_DIR)|ACCELERATE|NCCL|CUDA|GLOO|OMP_|MASTER_|PYTHON"
    r"|((LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|LOCAL_SIZE)$|.*_proxy$",
    re.IGNORECASE,
)
OWN = {f"{scheme}_proxy": "http://127.0.0.1:9" for scheme in ("http", "https")} | {
    "OMP_NUM_THREADS": THREADS,
    "PYTHONPATH": AT_EXIT,
}
LIMIT = 1200  # seconds; a machine may be busy
GRACE = 60.0  # seconds for the other ranks after one has failed


@dataclass(frozen=True)
class Ended:
    """The exit code of each process, and what all of them wrote; a negative code is a signal's number."""

    returncodes: list[int]
    out: str
    err: str

    @property
    def returncode(self) -> int:
        """The first that is not 0."""
        return next(filter(None, self.returncodes), 0)


@dataclass
class Started:
    """Processes that may still run."""

    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    streams: list[tuple[IO[str], IO[str]]] = field(default_factory=list)
    mark: dict[str, str] = field(default_factory=lambda: {"TEST_PROGRAM": uuid4().hex})

    @property
    def out(self) -> str:
        """What they have printed so far."""
        return _text(out for out, _ in self.streams)

    def ended(self, grace: float = GRACE) -> Ended:
        """Wait for their end. If one fails, the others get some time; what is left is killed."""
        try:
            self._wait(grace)
        finally:
            for process in self.processes:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            for pid in _marked(self.mark):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        codes = [process.wait() for process in self.processes]
        done = Ended(codes, self.out, _text(err for _, err in self.streams))
        for stream in chain(*self.streams):
            stream.close()
        return done

    def _wait(self, grace: float) -> None:
        deadline = time.monotonic() + LIMIT
        while any(process.poll() is None for process in self.processes) and time.monotonic() < deadline:
            if any(process.returncode for process in self.processes):
                deadline = min(deadline, time.monotonic() + grace)
                grace = LIMIT
            time.sleep(0.01)


def start(
    commands: Sequence[tuple[Sequence[str | Path], Mapping[str, str]]], cwd: Path | None, cold: bool = False
) -> Started:
    """Start commands, each with variables of its own, in a folder."""
    clean = {name: value for name, value in os.environ.items() if not OUTER.match(name)} | OWN
    started = Started()
    python = sys.executable if cold else str(warm())
    for argv, environ in commands:
        out, err = TemporaryFile("a+"), TemporaryFile("a+")  # noqa: SIM115
        process = subprocess.Popen(
            [str(word).replace(sys.executable, python) for word in argv],
            env=clean | started.mark | environ,
            cwd=cwd,
            stdout=out,
            stderr=err,
            stdin=subprocess.DEVNULL,
            process_group=0,
        )
        started.processes.append(process)
        started.streams.append((out, err))
    return started


def launched(ranks: int) -> list[dict[str, str]]:
    """The variables that torchrun and accelerate's launcher set for each of `ranks` on one node."""
    meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "GROUP_RANK": "0"}
    meet |= {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    return [meet | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]


def _text(files: Iterable[IO[str]]) -> str:
    return "".join(os.pread(file.fileno(), 1 << 30, 0).decode(errors="replace") for file in files)


def _marked(mark: Mapping[str, str]) -> list[int]:
    """The processes whose environment has the variable: torchrun gives each rank a session of its own."""
    ((name, value),) = mark.items()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{name}={value}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found
