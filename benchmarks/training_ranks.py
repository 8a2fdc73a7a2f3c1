"""One rank of the comparison that training.py starts."""

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.distributed as dist
from core.augment import augment_of
from core.checkpoint import Position
from core.config import TASKS, Config, parse_config
from core.data import Loaders, make_loaders
from core.feed import Feed, RankBatches
from core.loop import Fit
from core.process import Process, begin, join, leave
from core.report import Reporter
from core.run_ddp import make_learner
from plain_ddp import Plain
from torch.utils.data import TensorDataset

EPOCHS = {"mnist": 10}  # per round
ROUNDS = {"cpu": 9, "cuda": 3}
GOAL = {"cpu": 1, "cuda": 5}
GPU_SAMPLES = 50_000  # as in CIFAR


def main() -> None:
    """Measure both alternately. Rank 0 prints the bundled and the minimal loop, the ratio and its target."""
    name, folder, task, *flags = sys.argv[1:]
    made = ["--data", "synthetic", "--data-dir", folder, "--run-dir", f"{folder}/run", "--epochs", "1000"]
    config = parse_config(TASKS[task], [*made, *flags])
    process = join(config)
    begin(process, config)
    loaders = make_loaders(process, config)
    if process.device.type == "cuda":
        loaders = enlarged(loaders, process, config)
    plain = Plain(config.model, *loaders.train.dataset.tensors, config.batch_size, process.device)
    works = (ours(loaders, process, config), plain.epoch)
    epochs, samples = EPOCHS.get(task, 1), len(loaders.train) * config.batch_size
    rounds = range(ROUNDS[process.device.type] + 1)
    speeds = [[samples * epochs / seconds(work, turn, epochs) for work in works] for turn in rounds]
    if process.rank == 0:
        tell(name, speeds[1:], GOAL[process.device.type])  # the first fills caches
    leave(config)


def ours(loaders: Loaders, process: Process, config: Config) -> Callable[[int], object]:
    """One epoch of the bundled training, with metrics, augmentation and graceful stop."""
    learner = make_learner(process, config, len(loaders.train))
    fit = Fit(learner, loaders, Reporter(process, config), process, config)

    def epoch(number: int) -> None:
        loaders.train.batches.set_position(number, 0)
        fit.train(Position(number))

    return epoch


def enlarged(loaders: Loaders, process: Process, config: Config) -> Loaders:
    """The same with the number of samples of the real data set."""
    images, labels = loaders.train.dataset.tensors
    times = GPU_SAMPLES // len(labels)
    data = TensorDataset(images.repeat(times, 1, 1, 1), labels.repeat(times))
    batches = RankBatches(len(data), config.batch_size, process.rank, process.world_size, config.seed)
    return replace(loaders, train=Feed(data, batches, process, config, augment_of(config)))


def seconds(epoch: Callable[[int], object], turn: int, epochs: int) -> float:
    """Wall time of some epochs, until the last rank has finished."""
    dist.barrier()
    start = time.perf_counter()
    for number in range(turn * epochs, (turn + 1) * epochs):
        epoch(number)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    dist.barrier()
    return time.perf_counter() - start


def tell(name: str, speeds: list[list[float]], goal: int) -> None:
    """Print the result."""
    ratios = [mine / plain for mine, plain in speeds]
    mine, plain = (statistics.median(column) for column in zip(*speeds, strict=True))
    spread = f"from {min(ratios):.2f} to {max(ratios):.2f}"
    print(
        f"{name}: {mine:.0f} images/s; plain loop: {plain:.0f}; "
        f"ratio {statistics.median(ratios):.2f}, {spread} (goal: at least {goal})",
        flush=True,
    )


if __name__ == "__main__":
    main()
