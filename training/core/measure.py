"""The metrics of a run, summed over all ranks."""

import time
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import cross_entropy

WARM_UP = 5  # batches that select kernels, fill caches and compile


@dataclass(frozen=True)
class Score:
    """Mean loss and accuracy over the samples of all ranks, and the speed."""

    loss: float
    accuracy: float
    samples: int
    images_per_second: float


class Meter:
    """Sums over the samples that this rank has processed.

    `before` are the `totals` of an earlier part of the same epoch.
    """

    def __init__(
        self, device: torch.device, before: tuple[float, ...] = (0.0, 0.0, 0.0), warm: bool = True
    ) -> None:
        self.before = before
        self.loss = torch.zeros((), dtype=torch.float64, device=device)
        self.correct = torch.zeros((), dtype=torch.int64, device=device)
        self.samples = 0
        self.batches, self.warm_up = 0, 0 if warm else WARM_UP
        self._start_clock()

    def add(self, logits: Tensor, labels: Tensor, loss: Tensor | None = None) -> None:
        """Add a batch: logits (N, classes), labels (N,), and the mean `loss` if known. N may be 0."""
        samples = len(labels)
        logits = logits.detach()
        if loss is None:
            self.loss += cross_entropy(logits.float(), labels, reduction="sum")
        else:
            self.loss.add_(loss.detach(), alpha=samples)
        self.correct += (logits.argmax(1) == labels).sum()
        self.samples += samples
        self.batches += 1
        self.timed += samples
        if self.batches == self.warm_up:
            self._start_clock()

    def totals(self) -> tuple[float, ...]:
        """Return the total loss, correct predictions and samples of this epoch. Every rank must call this."""
        totals = torch.stack([self.loss, self.correct.double(), self.loss.new_tensor(self.samples)])
        if dist.is_initialized():
            dist.all_reduce(totals)
        return tuple(now + then for now, then in zip(totals.tolist(), self.before, strict=True))

    def score(self) -> Score:
        """Return the score over all ranks, weighted by samples. Every rank must call this."""
        loss, correct, samples = self.totals()
        speed = self.timed * _world_size() / (time.perf_counter() - self.start)
        return Score(loss / samples, correct / samples, int(samples), speed)

    def _start_clock(self) -> None:
        if self.loss.is_cuda:
            torch.cuda.synchronize()
        self.timed, self.start = 0, time.perf_counter()


def _world_size() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1
