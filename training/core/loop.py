"""The training loop for the frameworks without one: plain PyTorch and accelerate."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import LRScheduler

from .checkpoint import Position, Shelf
from .config import Config
from .data import Loaders
from .feed import Feed
from .leave import Watch
from .measure import Meter, Score
from .process import Process
from .report import Reporter, progress
from .state import restore, save
from .wrap import share_buffers


@dataclass(frozen=True)
class Learner:
    """A model, its optimizer and schedule, and a framework's functions for the parts of a step."""

    model: nn.Module  # wrapped by the framework
    plain: nn.Module  # the same weights under the names of build_model
    optimizer: torch.optim.Optimizer
    scheduler: LRScheduler
    scaler: torch.amp.GradScaler | None
    autocast: Callable[[], AbstractContextManager[object]]
    no_sync: Callable[
        [], AbstractContextManager[object]
    ]  # backward passes within it do not synchronize gradients
    backward: Callable[[Tensor], None]
    step: Callable[[], None]


class Fit:
    """Trains `learner` from its latest checkpoint, and evaluates it after every epoch."""

    def __init__(
        self, learner: Learner, loaders: Loaders, reporter: Reporter, process: Process, config: Config
    ) -> None:
        self.learner, self.loaders, self.reporter = learner, loaders, reporter
        self.process, self.config = process, config
        self.shelf = Shelf(process, config)
        self.watch = Watch(process, config)
        self.warm = False

    def run(self) -> None:
        """Train to the end, or until a graceful stop."""
        seed_ranks(self.process, self.config)
        position = restore(self.shelf, self.learner, self.reporter, self.process, self.config)
        while not self.reporter.finished:
            self.loaders.train.batches.set_position(position.epoch, position.batch)
            train = self.train(position)
            test = evaluate(self.learner, self.loaders.test, self.process)
            self.reporter.add(train, test, self.learner.scheduler.get_last_lr()[0])
            position = Position(position.epoch + 1)
            self._save(position)
            if not self.reporter.finished and self.watch.time_to_leave(at_once=True):
                self.watch.go()

    def train(self, position: Position) -> Score:
        """Train from `position` to the end of its epoch, or until a graceful stop."""
        feed, every = self.loaders.train, self.config.accumulate
        self.learner.model.train()
        meter = Meter(self.process.device, position.sums, self.warm)
        batches = enumerate(progress(feed, len(feed) - position.batch, self.process), position.batch + 1)
        for number, (images, labels) in batches:
            crash_if_asked(self.process, self.config, position.epoch * len(feed) + number - 1)
            whole = number % every == 0
            logits, loss = self.backward(images, labels, meets=whole)
            meter.add(logits, labels, loss)
            if whole:
                self.learner.step()
                self.learner.scheduler.step()
                if number < len(feed) and self.watch.time_to_leave():
                    self._save(Position(position.epoch, number, meter.totals()))
                    self.watch.go()
        self.warm = True
        return meter.score()

    def backward(self, images: Tensor, labels: Tensor, meets: bool) -> tuple[Tensor, Tensor]:
        """Add the gradients of a batch to those of this step. Synchronize the ranks only if `meets`."""
        learner = self.learner
        with nullcontext() if meets else learner.no_sync():
            with learner.autocast():
                logits = learner.model(images)
            loss = smoothed_loss(logits, labels, self.config)
            learner.backward(loss / self.config.accumulate)
        return logits, loss

    def _save(self, position: Position) -> None:
        if self.config.run_dir:
            save(self.shelf, self.learner, position, self.reporter, self.process, self.config)


@torch.no_grad()
def evaluate(learner: Learner, feed: Feed, process: Process) -> Score:
    """Evaluate the model on every sample exactly once, with any number of ranks.

    A sharded model is gathered for each batch, so every rank must have the same number of batches.
    """
    learner.model.eval()
    share_buffers(learner.plain)
    meter = Meter(process.device)
    for images, labels in feed:
        with learner.autocast():
            logits = learner.model(images)
        meter.add(logits, labels)
    return meter.score()


def smoothed_loss(logits: Tensor, labels: Tensor, config: Config) -> Tensor:
    """Return the mean loss of logits (N, classes) for labels (N,), in fp32 for logits of any precision."""
    return cross_entropy(logits.float(), labels, label_smoothing=config.label_smoothing)


def seed_ranks(process: Process, config: Config) -> None:
    """Give each rank its own random numbers. Before, all ranks initialize the same weights."""
    torch.manual_seed(config.seed + process.rank)


def crash_if_asked(process: Process, config: Config, batch: int) -> None:
    """Fail if `--crash-rank` names this rank. The job should end at once, not at its time limit."""
    if (config.crash_rank, config.crash_step * config.accumulate) == (process.rank, batch):
        raise RuntimeError(f"rank {process.rank} fails on purpose (--crash-rank)")
