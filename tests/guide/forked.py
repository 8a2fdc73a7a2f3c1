"""Runs ranks as copies of a process that has imported torch: for tests whose subject is not the launcher.

They get the variables of torchrun, and start in a fraction of a second.
"""

import multiprocessing
import os
import runpy
import signal
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from tests.conftest import THREADS
from tests.support.ports import free_port

from .running import GUIDE, LIMIT, OUTER, OWN, Completed

GRACE = 60.0  # seconds for the other ranks after one has failed
IMPORTED = ["torch.distributed.checkpoint.state_dict", "torch.distributed.fsdp", "torch.utils.data"]


@dataclass(frozen=True)
class Forked:
    """The exit code of each rank, and what all of them wrote."""

    returncodes: list[int]
    out: str
    err: str


def forked(script: Path, *args: str, cwd: Path, ranks: int = 2, grace: float = GRACE, **env: str) -> Forked:
    """Run a script on some ranks in a folder. If a rank fails, the others are killed, as by torchrun."""
    meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "GROUP_RANK": "0"}
    meet |= {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    asked = [env | meet | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]
    return _run([str(script), *args], asked, cwd, grace)


def run_ranks(
    script: str | Path,
    *args: str,
    ranks: int = 2,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
) -> Completed:
    """Run a script of examples/guide (or any path) on some ranks, as `torchrun` of running.py does."""
    with tempfile.TemporaryDirectory() as folder:
        done = forked(GUIDE / script, *args, cwd=cwd or Path(folder), ranks=ranks, **(env or {}))
    return Completed(next(filter(None, done.returncodes), 0), done.out, done.err)


def forked_alone(script: Path, *args: str, cwd: Path) -> Forked:
    """Run a script in one process, without the variables of a launcher."""
    return _run([str(script), *args], [{}], cwd)


def _run(argv: list[str], environments: list[dict[str, str]], cwd: Path, grace: float = GRACE) -> Forked:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    logs = [cwd / f"{time.monotonic_ns()}-{rank}" for rank in range(len(environments))]
    processes = [
        context.Process(target=_be_rank, args=(argv, environ, cwd, log))
        for environ, log in zip(environments, logs, strict=True)
    ]
    for process in processes:
        process.start()
    out, err = ([log.with_suffix(kind) for log in logs] for kind in (".out", ".err"))
    return Forked(_ended(processes, grace), _text(out), _text(err))


def _be_rank(argv: list[str], environ: dict[str, str], cwd: Path, log: Path) -> None:
    os.setsid()  # so that `_ended` can end the processes that the rank leaves
    for name in filter(OUTER.match, list(os.environ)):
        del os.environ[name]
    os.environ.update(OWN | environ)
    for stream, kind in ((1, ".out"), (2, ".err")):
        os.dup2(os.open(log.with_suffix(kind), os.O_WRONLY | os.O_CREAT), stream)
    os.chdir(cwd)
    # Not that of this process: workers of a data loader would each import torch, for seconds.
    multiprocessing.set_start_method("fork", force=True)
    torch.set_num_threads(int(THREADS))  # OMP_NUM_THREADS is read when torch is imported
    sys.argv = argv
    sys.path.insert(0, str(Path(argv[0]).parent))
    try:
        runpy.run_path(argv[0], run_name="__main__")
    except Exception:
        sys.excepthook(*sys.exc_info())  # that of torch.distributed names the rank
        sys.exit(1)


def _ended(processes: list[BaseProcess], grace: float) -> list[int]:
    """The exit codes, once all have ended or one has failed."""
    deadline = time.monotonic() + LIMIT
    try:
        while any(process.exitcode is None for process in processes) and time.monotonic() < deadline:
            running = [process.sentinel for process in processes if process.exitcode is None]
            wait(running, deadline - time.monotonic())
            if any(process.exitcode for process in processes):
                break
    finally:
        # Those that have ended come first: their data workers would keep the connections to the others open.
        for process in sorted(processes, key=lambda process: process.exitcode is None):
            process.join(grace)
            process.kill()
            process.join()
            assert process.pid
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # such as workers of a data loader
    return [process.exitcode or 0 for process in processes]


def _text(files: list[Path]) -> str:
    return "".join(file.read_text() for file in files if file.exists())
