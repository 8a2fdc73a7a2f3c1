"""The training loop of the frameworks that have none of their own: plain PyTorch and accelerate."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from .config import Config
from .data import Batch, Loaders
from .measure import Meter, Result, Score, report_epoch
from .process import Process


def fit(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loaders: Loaders,
    process: Process,
    config: Config,
    backward: Callable[[Tensor], None] = Tensor.backward,
) -> Result:
    """Train `model`, test it after every epoch, and return how the last epoch went."""
    seed_augmentation(process, config)
    for epoch in range(config.epochs):
        crash_if_asked(process, config)
        loaders.batches.set_epoch(epoch)
        train = train_epoch(model, optimizer, loaders.train, process, backward)
        result = Result(train, evaluate(model, loaders.test, process))
        report_epoch(process, config, epoch, result)
    return result


def train_epoch(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loader: DataLoader[Batch],
    process: Process,
    backward: Callable[[Tensor], None],
) -> Score:
    """Take one step for each batch of `loader`; the score is that of the weights as they changed."""
    model.train()
    meter = Meter(process.device)
    for images, labels in _on(process.device, loader):
        logits = model(images)
        optimizer.zero_grad()
        backward(cross_entropy(logits, labels))
        optimizer.step()
        meter.add(logits, labels)
    return meter.score()


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader[Batch], process: Process) -> Score:
    """Score `model` on every sample once, whatever the number of ranks.

    `model` is the wrapped one: before each batch DistributedDataParallel gives all ranks rank 0's BatchNorm
    statistics, so that all test one model. That is a collective, so every rank must have as many batches.
    """
    model.eval()
    meter = Meter(process.device)
    for images, labels in _on(process.device, loader):
        meter.add(model(images), labels)
    return meter.score()


def seed_augmentation(process: Process, config: Config) -> None:
    """Let each rank draw its own augmentation; before this, all drew the same weights."""
    torch.manual_seed(config.seed + process.rank)


def crash_if_asked(process: Process, config: Config) -> None:
    """Fail, if `--crash-rank` names this rank: a job must end then, and not wait until its time is up."""
    if config.crash_rank == process.rank:
        raise RuntimeError(f"rank {process.rank} fails on purpose (--crash-rank)")


def _on(device: torch.device, loader: DataLoader[Batch]) -> Iterator[Batch]:
    for images, labels in loader:
        yield images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
