"""Measures the speed of training steps and of all-reduce. Start it like the training.

torchrun --standalone --nproc-per-node=4 benchmark.py cifar --precision bf16 --channels-last --batch-size 2048
"""

import sys
import time
from collections.abc import Callable, Iterator
from itertools import chain, islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.feed import Batch, Feed
    from core.loop import Fit
    from core.process import Process

STEPS, WARM_UP = 30, 5
SIZES = [4**power for power in range(6, 14)]  # bytes: 4 KiB to 64 MiB


def main() -> None:
    """Measure steps with and without data loading, then all-reduce; the first argument is the task."""
    sys.path.insert(0, str(Path(__file__).parent))  # for `python -m training.benchmark`
    from core.config import TASKS, parse_config

    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in TASKS:
        raise SystemExit(f"usage: benchmark.py {{{','.join(TASKS)}}} [the flags of the training]")
    config = parse_config(TASKS[name], ["--data", "synthetic", *sys.argv[2:]])

    from core.data import make_loaders
    from core.loop import Fit
    from core.process import begin, join, leave, say
    from core.report import Reporter
    from core.run_ddp import make_learner

    process = join(config)
    begin(process, config)
    loaders = make_loaders(process, config)
    learner = make_learner(process, config, len(loaders.train))
    fit = Fit(learner, loaders, Reporter(process, config), process, config)
    tell: Callable[[str], None] = say if process.rank == 0 else lambda line: None
    batch = next(iter(loaders.train))
    for what, batches in (
        ("no data loading", repeat(batch)),
        ("with data loading", endless(loaders.train)),
    ):
        speed = images_per_second(fit, batches, process)
        tell(f"{config.model}, {what}: {speed:.0f} images/s, {speed / process.world_size:.0f} a rank")
    if process.world_size > 1:
        for size in SIZES:
            seconds, bus = all_reduce(size, process)
            tell(f"all-reduce {size / 1024:9.0f} KiB: {seconds * 1e6:9.0f} us, bus {bus / 1e9:7.2f} GB/s")
    leave(config)


def endless(feed: "Feed") -> "Iterator[Batch]":
    """Yield batches of consecutive epochs."""
    return chain.from_iterable(repeat(feed))


def images_per_second(fit: "Fit", batches: "Iterator[Batch]", process: "Process") -> float:
    """Return the images per second of all ranks in training, without the first steps."""
    fit.learner.model.train()
    samples, start = 0, 0.0
    for number, (images, labels) in enumerate(islice(batches, STEPS + WARM_UP)):
        if number == WARM_UP:
            samples, start = 0, _now(process)
        fit.backward(images, labels, meets=True)
        fit.learner.step()
        samples += len(labels)
    return samples * process.world_size / (_now(process) - start)


def all_reduce(size: int, process: "Process", repeats: int = 10) -> tuple[float, float]:
    """Return the seconds of one all-reduce of `size` bytes, and the bytes per second on each link.

    The bandwidth does not depend on the number of ranks. NVLink reaches hundreds of GB/s, PCIe tens, Ethernet
    one or less. A much lower value means that NCCL uses another link.
    """
    import torch
    import torch.distributed as dist

    message = torch.ones(size // 4, device=process.device)
    dist.all_reduce(message)
    start = _now(process)
    for _ in range(repeats):
        dist.all_reduce(message, op=dist.ReduceOp.MAX)
    seconds = (_now(process) - start) / repeats
    return seconds, size / seconds * 2 * (process.world_size - 1) / process.world_size


def _now(process: "Process") -> float:
    import torch

    if process.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


if __name__ == "__main__":
    main()
