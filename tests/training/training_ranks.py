"""Starts the ranks of a run as copies of a process that has imported torch and the frameworks already.

They get the same variables as under a launcher, but start in a tenth of a second.
test_training_runs.py starts the launchers themselves.
"""

import importlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch
from training_launch import ALONE, OUTER, TRAINING, Run

from tests.conftest import THREADS
from tests.support.ports import free_port

IMPORTED = [
    "torch.distributed.checkpoint.state_dict",
    "torch.distributed.fsdp",
    "torch._dynamo",
]
IMPORTED += ["lightning.pytorch.strategies", "accelerate", "sklearn.datasets", "torch.utils.flop_counter"]
TIMEOUT = 600.0  # seconds
GRACE = 60.0  # seconds for the other ranks after one has failed


@dataclass(frozen=True)
class Started:
    """The ranks of a run that may still go on, and the files of their output."""

    processes: list[BaseProcess]
    logs: list[Path]

    @property
    def out(self) -> str:
        """What the ranks have printed so far."""
        return self._read(".out")

    def ended(self) -> Run:
        """Wait until all have ended."""
        return Run(ended(self.processes), self.out, self._read(".err"))

    def _read(self, kind: str) -> str:
        files = [log.with_suffix(kind) for log in self.logs]
        return "".join(file.read_text() for file in files if file.exists())


@dataclass(frozen=True)
class Ranks:
    """Runs a training script on some ranks; `data_dir` is its folder for data."""

    data_dir: Path

    def __call__(
        self, framework: str, *flags: str, ranks: int = 2, folder: Path = TRAINING, **more: str
    ) -> Run:
        """Train with the script of `framework` in `folder`; `python` is train_ddp.py without a launcher."""
        return self.start(framework, *flags, ranks=ranks, folder=folder, **more).ended()

    def start(
        self, framework: str, *flags: str, ranks: int = 2, folder: Path = TRAINING, **more: str
    ) -> Started:
        """The same, without waiting for the end."""
        script = f"train_{'ddp' if framework == 'python' else framework}"
        environments = [{}] if framework == "python" else launched(ranks)
        return self.begin(script, flags, [environ | more for environ in environments], folder)

    def run(
        self, script: str, flags: Sequence[str], environments: list[dict[str, str]], folder: Path = TRAINING
    ) -> Run:
        """Run a module of the training, or of these tests, once in each of the environments."""
        return self.begin(script, flags, environments, folder).ended()

    def begin(
        self, script: str, flags: Sequence[str], environments: list[dict[str, str]], folder: Path
    ) -> Started:
        argv = [f"{script}.py", "--data-dir", str(self.data_dir), *flags]
        logs = [self.data_dir.parent / f"{time.monotonic_ns()}-{rank}" for rank in range(len(environments))]
        pairs = zip(environments, logs, strict=True)
        return Started([start(script, argv, environ, log, folder) for environ, log in pairs], logs)


def launched(ranks: int) -> list[dict[str, str]]:
    """The variables that torchrun and accelerate's launcher set for each of `ranks` on one node."""
    meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks)}
    return [{**meet, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]


def start(script: str, argv: list[str], environ: dict[str, str], log: Path, folder: Path) -> BaseProcess:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    process = context.Process(target=be_rank, args=(script, argv, environ, log, folder))
    process.start()
    return process


def be_rank(script: str, argv: list[str], environ: dict[str, str], log: Path, folder: Path) -> None:
    os.setsid()  # so that `ended` can end the processes that the rank leaves
    for name in filter(OUTER.match, list(os.environ)):
        del os.environ[name]
    os.environ.update(ALONE | environ)
    for stream, kind in ((1, ".out"), (2, ".err")):
        os.dup2(os.open(log.with_suffix(kind), os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    os.chdir(log.parent)
    # Not that of this process: workers of a data loader would each import torch, for seconds.
    multiprocessing.set_start_method("fork", force=True)
    torch.set_num_threads(int(THREADS))  # OMP_NUM_THREADS is read when torch is imported
    sys.path.insert(0, str(folder))
    sys.argv = argv
    importlib.import_module(script).main()


def ended(processes: list[BaseProcess]) -> list[int]:
    """The exit statuses after all have ended; after a failure, the others get `GRACE` seconds."""
    deadline = time.monotonic() + TIMEOUT
    while running := [process for process in processes if process.exitcode is None]:
        wait([process.sentinel for process in running], max(deadline - time.monotonic(), 0))
        if failed := [process for process in processes if process.exitcode]:
            deadline = min(deadline, time.monotonic() + GRACE)
            end_groups(failed)  # their data workers would keep their connections to the others open
        if time.monotonic() >= deadline:
            for process in running:
                process.kill()
                process.join()
    end_groups(processes)
    return [process.exitcode or 0 for process in processes]


def end_groups(processes: list[BaseProcess]) -> None:
    """End what the ranks leave, such as workers of a data loader."""
    for process in processes:
        assert process.pid
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
