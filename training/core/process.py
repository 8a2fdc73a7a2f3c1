"""One process among those of the launch: who it is, what it says, and how all of them agree."""

import os
import socket
import sys
from dataclasses import dataclass
from typing import NoReturn, TypeVar

import torch
import torch.distributed as dist

from .config import Config

T = TypeVar("T")


@dataclass(frozen=True)
class Process:
    """Who this process is: its rank of `world_size`, its number on its node, and what it computes on."""

    rank: int
    world_size: int
    local_rank: int
    device: torch.device


def say(line: str) -> None:
    """Print one line in one write, so that the lines of many ranks do not run into each other."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def begin(process: Process, config: Config) -> None:
    """Start a rank, once the process group exists: announce it, share the CPUs, refuse a wrong request."""
    host = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    rank = f"rank {process.rank}/{process.world_size} local_rank {process.local_rank}"
    device = "cpu" if process.device.type == "cpu" else str(process.device)
    say(f"{rank} host {host} device {device}")
    _share_cpus()
    agree(_fault(process, config))


def gather(value: T) -> list[T]:
    """Return every rank's `value`, in the order of ranks; returns only when every rank has come this far."""
    if not dist.is_initialized():
        return [value]
    values = [value] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def agree(error: str | None) -> None:
    """Go on only if no rank has an `error`; otherwise all ranks stop together, and rank 0 says why."""
    errors = [each for each in gather(error) if each]
    if errors:
        _stop(errors[0])


def leave() -> None:
    """Leave the process group, if there is one."""
    if dist.is_initialized():
        dist.destroy_process_group()


def _stop(error: str) -> NoReturn:
    if not dist.is_initialized() or dist.get_rank() == 0:
        sys.stderr.write(f"error: {error}\n")
        sys.stderr.flush()
    # A launcher kills the other ranks as soon as one fails: none leaves before the reason is out.
    gather(None)
    leave()
    raise SystemExit(2)


def _fault(process: Process, config: Config) -> str | None:
    size, world_size = config.batch_size, process.world_size
    if size % world_size:
        nearest = max(size // world_size, 1) * world_size
        return f"--batch-size {size} does not divide over {world_size} ranks. Use --batch-size {nearest}."
    if config.crash_rank is not None and config.crash_rank >= world_size:
        return f"--crash-rank {config.crash_rank} is not a rank. The last one is {world_size - 1}."
    return None


def _share_cpus() -> None:
    # Slurm and OMP_NUM_THREADS may promise more CPUs than there are, and ranks may share those there are:
    # so count the ranks on this machine that may use the very same ones.
    mine = (socket.gethostname(), sorted(os.sched_getaffinity(0)))
    share = len(mine[1]) // gather(mine).count(mine)
    torch.set_num_threads(max(1, min(torch.get_num_threads(), share)))
