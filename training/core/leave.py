"""Leaving in time: on a signal, or a margin before the job's end, all ranks stop after the same step."""

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

UNFINISHED = 75  # sysexits.h: a failure that passes; try again
SIGNALS = (signal.SIGUSR2, signal.SIGTERM)  # not USR1, which NCCL takes


class Watch:
    """Whether it is time for this rank to leave; only a run that can be gone on with watches."""

    def __init__(self, process: Process, config: Config) -> None:
        self.process, self.config = process, config
        self.called = False
        self.steps = 0
        self.deadline = _deadline(config.margin)
        if config.run_dir:
            for each in SIGNALS:
                signal.signal(each, self._call)
                # Python ends with the default handlers, which would kill a rank that has just finished.
                atexit.register(signal.signal, each, signal.SIG_IGN)

    def time_to_leave(self, at_once: bool = False) -> bool:
        """Ask all ranks, every so many steps, or now if `at_once`; every rank calls this as often."""
        self.steps += not at_once
        if not self.config.run_dir or not (at_once or self.steps % self.config.check_every == 0):
            return False
        wish = torch.tensor(float(self.called or time.time() >= self.deadline), device=self.process.device)
        if dist.is_initialized():
            dist.all_reduce(wish, op=dist.ReduceOp.MAX)
        return bool(wish)

    def go(self) -> None:
        """Leave together, once all is saved; the file REQUEUE_FILE says that it is worth coming back.

        A launcher turns the status 75 of its ranks into 1, so the file tells the batch script.
        """
        if not self.steps:
            raise SystemExit("error: there was not even time for one step. Ask for more --time.")
        if self.process.rank == 0:
            say("not finished: saved, and leaving in time")
            if name := os.environ.get("REQUEUE_FILE"):
                Path(name).touch()
        gather(None)  # the first to leave makes the launcher end the others
        leave(self.config, UNFINISHED)

    def _call(self, _number: int, _frame: FrameType | None) -> None:
        self.called = True


def _deadline(margin: int) -> float:
    """Return when to leave; a short job keeps most of its time."""
    if "SLURM_JOB_END_TIME" not in os.environ:
        return float("inf")
    end = int(os.environ["SLURM_JOB_END_TIME"])
    return end - min(margin, (end - time.time()) / 4)
