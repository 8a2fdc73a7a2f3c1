"""Ranks that wait for each other: each fault of --fault ends after --timeout seconds, with a message.

torchrun --standalone --nproc-per-node=2 hangs.py --fault rank-0-only
"""

import argparse
import os
import time
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def rank_0_only(rank: int) -> None:
    """Rank 0 evaluates between two steps, and averages the result; the others are in their next step."""
    if rank == 0:
        reduce("accuracy", 0.5)
    reduce("gradient", 1.0)


def reduce(name: str, value: float) -> None:
    tensor = torch.tensor([value], device=DEVICE)
    dist.all_reduce(tensor)
    print(f"rank {dist.get_rank()}: the sum of {name} is {tensor.item()}", flush=True)


def barrier_on_rank_0(rank: int) -> None:
    """Rank 0 waits for the others before it saves a checkpoint; they do not know about it."""
    if rank == 0:
        dist.barrier()
    reduce("gradient", 1.0)


def uneven_batches(rank: int) -> None:
    """Rank 0 has three batches and the others two: its third backward waits for gradients."""
    model = DistributedDataParallel(torch.nn.Linear(4, 1).to(DEVICE))
    for batch in range(3 if rank == 0 else 2):
        model(torch.ones(8, 4, device=DEVICE)).sum().backward()
        print(f"rank {rank}: batch {batch} done", flush=True)
    if rank:
        time.sleep(3600)


def one_rank_leaves(rank: int) -> None:
    """The last rank leaves the group after an error, but does not end; torchrun would end the others."""
    if rank == dist.get_world_size() - 1:
        print(f"rank {rank} has found a bad file", flush=True)
        dist.destroy_process_group()
        time.sleep(3600)
    reduce("gradient", 1.0)


def one_rank_stands_still(rank: int) -> None:
    """The last rank reads a file system that does not reply; monitored_barrier names it."""
    group = dist.new_group(backend="gloo")
    if rank == dist.get_world_size() - 1:
        time.sleep(3600)
    dist.monitored_barrier(group, timeout=TIMEOUT, wait_all_ranks=True)


def right(rank: int) -> None:
    """Every rank calls the same collective operations in the same order."""
    reduce("accuracy", 0.5 if rank == 0 else 0.0)
    reduce("gradient", 1.0)


FAULTS: dict[str, Callable[[int], None]] = {
    "none": right,
    "rank-0-only": rank_0_only,
    "barrier-on-rank-0": barrier_on_rank_0,
    "uneven-batches": uneven_batches,
    "one-rank-leaves": one_rank_leaves,
    "one-rank-stands-still": one_rank_stands_still,
}
parser = argparse.ArgumentParser()
parser.add_argument("--fault", choices=FAULTS, default="none")
parser.add_argument("--timeout", type=float, default=10, help="seconds that a collective operation may take")
options = parser.parse_args()
TIMEOUT = timedelta(seconds=options.timeout)
LOCAL_RANK = int(os.environ["LOCAL_RANK"])
CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda", LOCAL_RANK) if CUDA else torch.device("cpu")

if CUDA:
    torch.cuda.set_device(DEVICE)
dist.init_process_group("nccl" if CUDA else "gloo", timeout=TIMEOUT)
FAULTS[options.fault](dist.get_rank())
dist.destroy_process_group()
