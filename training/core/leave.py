"""Graceful stop: on a signal, or some time before the end of the job, all ranks stop after the same step."""

import atexit
import os
import signal
import time
from pathlib import Path
from types import FrameType

import torch
import torch.distributed as dist

from .config import Config
from .process import Process, gather, leave, say

UNFINISHED = 75  # EX_TEMPFAIL of sysexits.h
SIGNALS = (signal.SIGUSR2, signal.SIGTERM)  # not SIGUSR1, which NCCL uses


class Watch:
    """Whether it is time to stop. Only active with `--run-dir`, since other runs cannot be continued."""

    def __init__(self, process: Process, config: Config) -> None:
        self.process, self.config = process, config
        self.called = False
        self.steps = 0
        self.deadline = _deadline(config.margin)
        if config.run_dir:
            for each in SIGNALS:
                signal.signal(each, self._call)
                # At exit, Python restores the default handlers, which would kill a finished rank.
                atexit.register(signal.signal, each, signal.SIG_IGN)

    def time_to_leave(self, at_once: bool = False) -> bool:
        """Whether any rank should stop, checked every `--check-every` steps, or now if `at_once`.

        Every rank must call this equally often."""
        self.steps += not at_once
        if not self.config.run_dir or not (at_once or self.steps % self.config.check_every == 0):
            return False
        wish = torch.tensor(float(self.called or time.time() >= self.deadline), device=self.process.device)
        if dist.is_initialized():
            dist.all_reduce(wish, op=dist.ReduceOp.MAX)
        return bool(wish)

    def go(self) -> None:
        """Exit all ranks together, after saving, and create the file REQUEUE_FILE.

        A launcher turns the status 75 of its ranks into 1, so the batch script checks the file.
        """
        if not self.steps:
            raise SystemExit("error: there was no time for a single step. Request more --time.")
        if self.process.rank == 0:
            say("not finished: saved a checkpoint and stopped before the end of the job")
            if name := os.environ.get("REQUEUE_FILE"):
                Path(name).touch()
        gather(None)  # as soon as one rank exits, the launcher ends the others
        leave(self.config, UNFINISHED)

    def _call(self, _number: int, _frame: FrameType | None) -> None:
        self.called = True


def _deadline(margin: int) -> float:
    """Return the time to stop; at least three quarters of a short job remain."""
    if "SLURM_JOB_END_TIME" not in os.environ:
        return float("inf")
    end = int(os.environ["SLURM_JOB_END_TIME"])
    return end - min(margin, (end - time.time()) / 4)
