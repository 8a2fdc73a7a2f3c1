"""Measure compilation, training steps with and without data loading, and all-reduce.

    torchrun --standalone --nproc-per-node=4 benchmark.py --task cifar10 --batch-size 4096

The flags are those of train_ddp.py. The data are random, made on the spot.
"""

import os
import time
from argparse import Namespace
from collections.abc import Iterator
from itertools import repeat
from tempfile import TemporaryDirectory

import torch
import torch.distributed as dist
from data import Batch, Feed
from device import out_of_memory_explained, peak_flops
from models import build_model
from options import DDP, TASKS, Flags, N, global_batch_size, parse_options
from ranks import Ranks, start
from torch.utils.data import TensorDataset
from train_ddp import Training

STEPS: Flags = {"run": [("steps", 30, "steps of each measurement; the first five only warm up", N)]}
SIZES = [4**power for power in range(6, 14)]  # bytes: 4 KiB to 64 MiB


def main() -> None:
    """Measure the first step, then steps with and without data loading, then all-reduce."""
    options = parse_options(DDP, STEPS, framework="ddp")
    options.run_dir = None
    with TemporaryDirectory() as cache:  # an empty one: the time of compilation is that of a first run
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        ranks = start(options)
        data = random_images(options, ranks)
        training = Training(options, ranks, build_model(options, ranks.device), data, None, data)
        with out_of_memory_explained(ranks):
            measure_steps(training)
        for size in SIZES if ranks.world_size > 1 else ():
            measure_all_reduce(size, ranks)
        ranks.leave()


def random_images(options: Namespace, ranks: Ranks) -> TensorDataset:
    """Return as many samples as --steps need."""
    task, samples = TASKS[options.task], options.steps * global_batch_size(options, ranks.world_size)
    shape = (samples, task.channels, task.side, task.side)
    return TensorDataset(
        torch.randint(256, shape, dtype=torch.uint8), torch.randint(task.classes, (samples,))
    )


class Repeated:
    """One batch again and again: an epoch without data loading."""

    def __init__(self, feed: Feed, batches: int) -> None:
        self.order, self.batch, self.batches = feed.order, next(iter(feed)), batches

    def __len__(self) -> int:
        """Return the number of batches."""
        return self.batches

    def __iter__(self) -> Iterator[Batch]:
        return repeat(self.batch, self.batches)


def measure_steps(training: Training) -> None:
    """Report the first step, and the speed of the others."""
    options, ranks, feed = training.options, training.ranks, training.train
    what = "compilation and the first step" if options.compile else "the first step"
    training.train = Repeated(feed, options.accumulate)
    before = now(ranks)
    training.train_epoch(0, 0, [0.0] * 3)
    report(ranks, f"{options.model}, {what}: {now(ranks) - before:.2f} s")
    for name, batches in (("no data loading", Repeated(feed, len(feed))), ("with data loading", feed)):
        training.train = batches
        report(ranks, f"{options.model}, {name}: {speed(training)}")


def speed(training: Training) -> str:
    """Return the speed of an epoch in words."""
    ranks, meter = training.ranks, training.train_epoch(0, 0, [0.0] * 3)
    now(ranks)
    each = meter.images_per_second / ranks.world_size
    flops, peak = each * training.report.flops, peak_flops(ranks.device)
    mfu = f", MFU {flops / peak:.1%}" if peak else ""
    work = f"{each:.0f} per rank, {flops / 1e9:.1f} GFLOP/s per rank{mfu}"
    return f"{meter.images_per_second:.0f} images/s, {work}"


def measure_all_reduce(size: int, ranks: Ranks, repeats: int = 10) -> None:
    """Report the seconds of an all-reduce of `size` bytes, and the bytes per second on each link.

    The bandwidth does not depend on the number of ranks. NVLink reaches hundreds of GB/s, PCIe tens, Ethernet
    one or less. A much lower value means that NCCL uses another link.
    """
    ranks.beat("all-reduce")
    message = torch.ones(size // 4, device=ranks.device)
    dist.all_reduce(message)
    before = now(ranks)
    for _ in range(repeats):
        dist.all_reduce(message, op=dist.ReduceOp.MAX)
    seconds = (now(ranks) - before) / repeats
    bus = size / seconds * 2 * (ranks.world_size - 1) / ranks.world_size
    report(ranks, f"all-reduce {size / 1024:9.0f} KiB: {seconds * 1e6:9.0f} us, bus {bus / 1e9:7.2f} GB/s")


def now(ranks: Ranks) -> float:
    """Return the time when the device has finished its work."""
    if ranks.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def report(ranks: Ranks, line: str) -> None:
    """Print a line once."""
    if ranks.rank == 0:
        ranks.say(line)


if __name__ == "__main__":
    main()
