"""What a run measures, always as sums over all ranks, and the lines in which it tells a person."""

import hashlib
import time
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from .config import Config
from .process import Process, say


@dataclass(frozen=True)
class Score:
    """Mean `loss` and `accuracy` over `samples` samples of all ranks, which took `seconds`."""

    loss: float
    accuracy: float
    samples: int
    seconds: float


class Meter:
    """Sums over the samples that this rank has seen since it was made."""

    def __init__(self, device: torch.device) -> None:
        self.start = time.perf_counter()
        self.samples = 0
        self.sums = torch.zeros(2, dtype=torch.float64, device=device)

    def add(self, logits: Tensor, labels: Tensor) -> None:
        """Count a batch: logits (N, 10) and labels (N,); N may be 0."""
        logits = logits.detach().float()
        loss = cross_entropy(logits, labels, reduction="sum")
        self.sums += torch.stack([loss, (logits.argmax(1) == labels).sum()])
        self.samples += len(labels)

    def score(self) -> Score:
        """Add up all ranks, every sample weighing the same; every rank calls this and gets the same."""
        totals = torch.cat([self.sums, self.sums.new_tensor([self.samples])])
        if dist.is_initialized():
            dist.all_reduce(totals)
        loss, correct, samples = totals.tolist()
        return Score(loss / samples, correct / samples, int(samples), time.perf_counter() - self.start)


@dataclass(frozen=True)
class Result:
    """How an epoch went in training and then in testing."""

    train: Score
    test: Score


def report_epoch(process: Process, config: Config, epoch: int, result: Result) -> None:
    """Tell of epoch number `epoch`, counted from 0; rank 0 speaks for all."""
    if process.rank == 0:
        speed = result.train.samples / result.train.seconds
        say(
            f"epoch {epoch + 1}/{config.epochs}  train loss {result.train.loss:.4f}  "
            f"test accuracy {result.test.accuracy:.4f}  {speed:.0f} images/s"
        )


def report_end(process: Process, config: Config, result: Result, model: nn.Module) -> None:
    """Tell what every rank ended with, which must be the same on all of them, and what came of it."""
    vector = nn.utils.parameters_to_vector(model.parameters()).detach().cpu()
    params = hashlib.sha256(vector.numpy().tobytes()).hexdigest()[:8]
    say(f"rank {process.rank}/{process.world_size} final_loss {result.train.loss:.6f} params {params}")
    if process.rank == 0:
        test = result.test
        say(
            f"done: accuracy {test.accuracy:.4f}, test loss {test.loss:.4f}, {test.samples} test images, "
            f"{config.epochs} epochs, world size {process.world_size}"
        )
