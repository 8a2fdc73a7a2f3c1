"""Starts the ranks of a run as copies of a process that has imported torch and the frameworks already.

They get the same variables as under a launcher, but start in a tenth of a second.
test_training_runs.py starts the launchers themselves.
"""

import importlib
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from training_launch import NO_NETWORK, OUTER, Run, free_port, srun_environments

IMPORTED = ["torch.distributed.checkpoint.state_dict", "torch.distributed.fsdp", "torchvision.datasets"]
IMPORTED += ["lightning.pytorch.strategies", "accelerate", "sklearn.datasets"]
TIMEOUT = 180.0  # seconds
GRACE = 20.0  # seconds for the other ranks after one has failed


@dataclass(frozen=True)
class Ranks:
    """Runs a training script on some ranks; `data_dir` is its folder for data."""

    data_dir: Path

    def __call__(self, framework: str, task: str, *flags: str, ranks: int = 2, **more: str) -> Run:
        script = f"{task}_{'ddp' if framework == 'python' else framework}"
        environments = {"lightning": srun_environments, "python": lambda _: [{}]}.get(framework, launched)
        return self.run(script, flags, [environ | more for environ in environments(ranks)])

    def run(self, script: str, flags: Sequence[str], environments: list[dict[str, str]]) -> Run:
        """Run a module of the training, or of these tests, once in each of the environments."""
        argv = [script, *flags, "--data-dir", str(self.data_dir)]
        logs = [self.data_dir.parent / f"{time.monotonic_ns()}-{rank}" for rank in range(len(environments))]
        codes = ended(
            [start(script, argv, environ, log) for environ, log in zip(environments, logs, strict=True)]
        )
        out, err = ("".join(log.with_suffix(kind).read_text() for log in logs) for kind in (".out", ".err"))
        return Run(codes, out, err)


def launched(ranks: int) -> list[dict[str, str]]:
    """The variables that torchrun and accelerate's launcher set for each of `ranks` on one node."""
    meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks)}
    return [{**meet, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]


def start(script: str, argv: list[str], environ: dict[str, str], log: Path) -> BaseProcess:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    process = context.Process(target=be_rank, args=(script, argv, environ, log))
    process.start()
    return process


def be_rank(script: str, argv: list[str], environ: dict[str, str], log: Path) -> None:
    for name in filter(OUTER.match, list(os.environ)):
        del os.environ[name]
    os.environ.update(NO_NETWORK | environ)
    for stream, kind in ((1, ".out"), (2, ".err")):
        os.dup2(os.open(log.with_suffix(kind), os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    os.chdir(log.parent)
    sys.argv = argv
    importlib.import_module(script).main()


def ended(processes: list[BaseProcess]) -> list[int]:
    """The exit statuses after all have ended; after a failure, the others get `GRACE` seconds."""
    deadline = time.monotonic() + TIMEOUT
    while running := [process for process in processes if process.exitcode is None]:
        wait([process.sentinel for process in running], max(deadline - time.monotonic(), 0))
        if any(process.exitcode for process in processes):
            deadline = min(deadline, time.monotonic() + GRACE)
        if time.monotonic() >= deadline:
            for process in running:
                process.kill()
                process.join()
    return [process.exitcode or 0 for process in processes]
