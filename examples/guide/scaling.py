"""Measures strong or weak scaling: run it on 1, 2, 4 ... ranks, with the same file for the results.

torchrun --standalone --nproc-per-node=2 scaling.py strong scaling.jsonl
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BATCH = 256
"Strong scaling: of all ranks together. Weak scaling: of each rank."
WARM_UP, BLOCKS, STEPS = 10, 20, 5


# start-measure
def step_seconds(step: Callable[[], None], cuda: bool) -> float:
    """The median over twenty blocks of five steps, after a warm-up."""
    seconds = []
    for block in range(WARM_UP // STEPS + BLOCKS):
        dist.barrier()  # all ranks begin a block together
        start = time.perf_counter()
        for _ in range(STEPS):
            step()
        if cuda:
            torch.cuda.synchronize()
        if block >= WARM_UP // STEPS:
            seconds.append((time.perf_counter() - start) / STEPS)
    return median(seconds)


# end-measure
def make_step(batch_of_rank: int, device: torch.device) -> Callable[[], None]:
    layers = nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 10)
    model = DistributedDataParallel(nn.Sequential(*layers).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images = torch.randn(batch_of_rank, 784, device=device)
    labels = torch.randint(0, 10, (batch_of_rank,), device=device)

    def step() -> None:
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


# start-report
def amdahl(ranks: int, serial: float) -> float:
    """The highest speed-up if a share `serial` of the work of one rank cannot be divided."""
    return 1 / (serial + (1 - serial) / ranks)


def serial_share(ranks: int, speed_up: float) -> float:
    """The share that explains a measured speed-up; the inverse of `amdahl`."""
    return (ranks / speed_up - 1) / (ranks - 1)


def report(lines: list[dict], kind: str) -> None:
    """Compare the samples per second with the first line, a run on one rank."""
    runs = [line for line in lines if line["kind"] == kind]
    if runs[0]["ranks"] != 1:
        raise SystemExit("error: the first run must be on one rank; it is the reference")
    print("ranks  global batch  samples/s  speed-up  efficiency  serial share")
    for run in runs:
        ranks, speed_up = run["ranks"], run["samples_per_second"] / runs[0]["samples_per_second"]
        serial = f"{serial_share(ranks, speed_up):12.1%}" if ranks > 1 and kind == "strong" else ""
        row = f"{ranks:5}  {run['global_batch']:12}  {run['samples_per_second']:9.0f}"
        print(f"{row}  {speed_up:8.2f}  {speed_up / ranks:10.0%}  {serial}".rstrip())


# end-report
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("strong", "weak"))
    parser.add_argument("results", type=Path)
    asked = parser.parse_args()
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    global_batch = BATCH if asked.kind == "strong" else BATCH * ranks
    seconds = step_seconds(make_step(global_batch // ranks, device), cuda)
    if rank == 0:
        run = {"kind": asked.kind, "ranks": ranks, "global_batch": global_batch}
        with asked.results.open("a") as file:
            file.write(json.dumps(run | {"samples_per_second": round(global_batch / seconds)}) + "\n")
        report([json.loads(line) for line in asked.results.read_text().splitlines()], asked.kind)
    dist.barrier()  # no rank leaves while another still communicates
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
