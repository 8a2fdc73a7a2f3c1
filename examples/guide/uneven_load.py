"""Measure each rank's own time and waiting time per step, and name the slowest rank.

torchrun --standalone --nproc-per-node=2 uneven_load.py --slow-rank 1 --slow-ms 50
"""

import argparse
import os
import socket
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn


def synchronize() -> None:
    """Wait for the GPU. Otherwise only the start of its kernels would be timed."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def own_work(model: nn.Module, batch: torch.Tensor) -> float:
    """Seconds that this rank needs for its batch, without any communication."""
    begin = time.perf_counter()
    if options.slow_rank == RANK:
        time.sleep(options.slow_ms / 1000)
    model.zero_grad()
    model(batch).square().mean().backward()
    synchronize()
    return time.perf_counter() - begin


def exchange(model: nn.Module) -> float:
    """Seconds in the all-reduce: the transfer, and the wait for the last rank."""
    begin = time.perf_counter()
    gradients = torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])
    dist.all_reduce(gradients)
    synchronize()
    return time.perf_counter() - begin


def report(own: list[float], waited: list[float]) -> None:
    """Rank 0 prints the median step of every rank; the least wait of a rank is the transfer."""
    mine = (socket.gethostname(), statistics.median(own) * 1000, statistics.median(waited) * 1000)
    ranks: list[tuple[str, float, float]] = [mine] * dist.get_world_size()
    dist.all_gather_object(ranks, mine)
    if RANK:
        return
    transfer = min(wait for _, _, wait in ranks)
    for rank, (host, work, wait) in enumerate(ranks):
        print(f"rank {rank} on {host}: own work {work:.1f} ms, waits {wait - transfer:.1f} ms")
    slowest = max(range(len(ranks)), key=lambda rank: ranks[rank][1])
    typical = statistics.median(work for _, work, _ in ranks)
    print(f"transfer: {transfer:.1f} ms")
    print(
        f"slowest: rank {slowest} on {ranks[slowest][0]}, {ranks[slowest][1] / typical:.2f} x the median rank"
    )


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--slow-rank", type=int, default=-1, help="delay this rank, to see what a straggler does")
parser.add_argument("--slow-ms", type=float, default=50)
options = parser.parse_args()
CUDA = torch.cuda.is_available()
LOCAL_RANK = int(os.environ["LOCAL_RANK"])
DEVICE = torch.device("cuda", LOCAL_RANK) if CUDA else torch.device("cpu")
if CUDA:
    torch.cuda.set_device(DEVICE)
dist.init_process_group("nccl" if CUDA else "gloo")
RANK = dist.get_rank()

model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).to(DEVICE)
batch = torch.randn(options.batch_size, 512, device=DEVICE)
times = [(own_work(model, batch), exchange(model)) for _ in range(3 + options.steps)][3:]  # 3 to warm up
report([own for own, _ in times], [waited for _, waited in times])
dist.barrier()  # no rank leaves while another still communicates
dist.destroy_process_group()
