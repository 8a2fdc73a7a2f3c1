"""Runs the guide's scripts as users do: in separate processes, on loopback, without a network."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from uuid import uuid4

from tests.conftest import AT_EXIT, REPOSITORY, THREADS

GUIDE = REPOSITORY / "examples" / "guide"
OUTER = re.compile(
    r"SLURM|SBATCH|SRUN|PMI|TORCH|ACCELERATE|NCCL|CUDA|GLOO|OMP_|MASTER_|PYTHON"
    r"|((LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|LOCAL_SIZE)$|.*_proxy$",
    re.IGNORECASE,
)
OWN = {f"{scheme}_proxy": "http://127.0.0.1:9" for scheme in ("http", "https")} | {
    "OMP_NUM_THREADS": THREADS,
    "PYTHONPATH": AT_EXIT,
}
LIMIT = 1200  # seconds; a machine may be busy


@dataclass(frozen=True)
class Completed:
    """The exit code and the output of a command; a negative code is a signal's number."""

    returncode: int
    out: str
    err: str


def run(*argv: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None) -> Completed:
    """Run a command in a clean environment, and end all its processes afterwards."""
    clean = {name: value for name, value in os.environ.items() if not OUTER.match(name)}
    mark = {"GUIDE_RUN": uuid4().hex}
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        process = subprocess.Popen(
            [str(word) for word in argv],
            env=clean | OWN | mark | (env or {}),
            cwd=cwd,
            stdout=out,
            stderr=err,
            stdin=subprocess.DEVNULL,
            process_group=0,
        )
        with _ended(process, mark):
            process.wait(LIMIT)
        out.seek(0)
        err.seek(0)
        return Completed(process.returncode, out.read(), err.read())


def python(script: str | Path, *args: str, **more: object) -> Completed:
    """Run a script of examples/guide (or any path) in one process, without a launcher."""
    return run(sys.executable, GUIDE / script, *args, **more)  # type: ignore[arg-type]


def torchrun(script: str | Path, *args: str, ranks: int = 2, **more: object) -> Completed:
    """Run a script of examples/guide (or any path) under torchrun on one node."""
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    # Without --no-python, it starts Python with -u, which writes a line and its end apart: lines mix.
    launch += ["--no-python", sys.executable]
    return run(sys.executable, *launch, GUIDE / script, *args, **more)  # type: ignore[arg-type]


def ranks_of(out: str) -> dict[int, list[str]]:
    """Return by rank what follows `rank N` at the start of a line, in printed order."""
    lines: dict[int, list[str]] = {}
    for rank, text in re.findall(r"^rank (\d+):? *(.*)$", out, re.M):
        lines.setdefault(int(rank), []).append(text)
    return lines


@contextmanager
def _ended(process: "subprocess.Popen[bytes]", mark: dict[str, str]) -> Iterator[None]:
    """End the process group and all marked processes: torchrun gives each rank a session of its own."""
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pid in _marked(mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _marked(mark: dict[str, str]) -> list[int]:
    """The processes whose environment contains the variable."""
    ((name, value),) = mark.items()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{name}={value}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found
