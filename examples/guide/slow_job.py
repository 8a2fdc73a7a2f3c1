"""Profiles a few steps and says where the time goes: `torchrun --standalone --nproc-per-node=2 slow_job.py --fault data`."""

import argparse
import os
import time
from collections.abc import Iterable, Iterator

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd import DeviceType
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule

WAIT, WARM_UP, ACTIVE = 2, 2, 10
FAULTS = ("none", "data", "slow-rank")


# start-profile
def profiled(steps: Iterable[None], device: torch.device) -> profile:
    """Run the steps; record the last ten of them."""
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device.type == "cuda")
    plan = schedule(wait=WAIT, warmup=WARM_UP, active=ACTIVE, repeat=1)
    with profile(activities=activities, schedule=plan) as profiler:
        for _ in steps:
            profiler.step()  # the end of a step
    return profiler


# end-profile
# start-shares
MESSAGES = ("nccl", "gloo", "c10d")
FRAMES = ("ProfilerStep", "DistributedDataParallel", "autograd::", "Optimizer.")


def shares(profiler: profile, device: torch.device) -> dict[str, float]:
    """The shares of the time in which this rank computes, only communicates, and does neither."""
    kind = DeviceType.CUDA if device.type == "cuda" else DeviceType.CPU
    events = profiler.events()
    steps = [event.time_range for event in events if event.name.startswith("ProfilerStep")]
    begin, end = min(step.start for step in steps), max(step.end for step in steps)
    work = [event for event in events if event.device_type == kind and not event.name.startswith(FRAMES)]
    compute = [event for event in work if not event.name.lower().startswith(MESSAGES)]
    computing, busy = covered(compute, begin, end), covered(work, begin, end)
    parts = {"computation": computing, "communication": busy - computing, "waiting": end - begin - busy}
    return {name: part / (end - begin) for name, part in parts.items()}


def covered(events: list, begin: float, end: float) -> float:
    """The time in which at least one of the events runs."""
    total, reached = 0.0, begin
    for span in sorted((event.time_range for event in events), key=lambda span: span.start):
        start, stop = max(span.start, reached), min(span.end, end)
        total, reached = total + max(0.0, stop - start), max(reached, stop)
    return total


# end-shares
def training(device: torch.device, fault: str, pause: float) -> Iterator[None]:
    layers = nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    model = DistributedDataParallel(nn.Sequential(*layers).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images, labels = torch.randn(256, 512, device=device), torch.randint(0, 10, (256,), device=device)
    for _ in range(WAIT + WARM_UP + ACTIVE):
        if fault == "data" or (fault == "slow-rank" and dist.get_rank() == 1):
            time.sleep(pause)  # a loader that is too slow; with slow-rank, only on one rank
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fault", choices=FAULTS, default="none")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds of the fault before each step")
    parser.add_argument("--trace", help="write a trace to TRACE-RANK.json")
    asked = parser.parse_args()
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None)
    profiler = profiled(training(device, asked.fault, asked.pause), device)
    found = shares(profiler, device)
    if asked.trace:
        profiler.export_chrome_trace(f"{asked.trace}-{dist.get_rank()}.json")  # opens in ui.perfetto.dev
    line = ", ".join(f"{name} {share:.0%}" for name, share in found.items())
    print(f"rank {dist.get_rank()}: {line}", flush=True)
    dist.barrier()  # no rank leaves while another still communicates
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
