"""Graceful stop: on a signal, or some time before the end of the job, all ranks stop after the same step."""

import atexit
import os
import signal
import time
from argparse import Namespace
from pathlib import Path
from types import FrameType

import torch
import torch.distributed as dist
from ranks import Ranks

UNFINISHED = 75  # EX_TEMPFAIL of sysexits.h


class Stop:
    """Whether to save and stop: after SIGUSR2 or SIGTERM, and --margin seconds before SLURM_JOB_END_TIME.

    Only with --run-dir: another run could not be continued.
    """

    def __init__(self, options: Namespace, ranks: Ranks) -> None:
        """Take over the signals."""
        self.ranks, self.on, self.every = ranks, bool(options.run_dir), options.check_every
        self.steps, self.called, self.deadline = 0, False, deadline(options.margin)
        for each in (signal.SIGUSR2, signal.SIGTERM) if self.on else ():  # not SIGUSR1, which NCCL uses
            signal.signal(each, self._call)
            # At exit, Python restores the default handlers, which would kill a finished rank.
            atexit.register(signal.signal, each, signal.SIG_IGN)

    def due(self, now: bool = False) -> bool:
        """Return whether any rank should stop; asks every few calls, or `now`. All ranks must call this."""
        self.steps += not now
        if not self.on or not (now or self.steps % self.every == 0):
            return False
        wish = torch.full((), float(self.called or time.time() >= self.deadline), device=self.ranks.device)
        if self.ranks.world_size > 1:
            dist.all_reduce(wish, op=dist.ReduceOp.MAX)
        return bool(wish)

    def leave(self, step: int) -> None:
        """Exit all ranks together with status 75, after saving, and write the step to the file REQUEUE_FILE.

        A launcher turns the status of its ranks into 1, so the batch script looks for the file.
        """
        if self.ranks.rank == 0:
            self.ranks.say("not finished: saved a checkpoint and stopped before the end of the job")
            if name := os.environ.get("REQUEUE_FILE"):
                Path(name).write_text(str(step))
        self.ranks.leave(UNFINISHED, at_once=True)

    def _call(self, _number: int, _frame: FrameType | None) -> None:
        self.called = True


def deadline(margin: int) -> float:
    """Return the time to stop; at least three quarters of a short job remain."""
    if "SLURM_JOB_END_TIME" not in os.environ:
        return float("inf")
    end = int(os.environ["SLURM_JOB_END_TIME"])
    return end - min(margin, (end - time.time()) / 4)
