"""What a run measures, always as sums over all ranks."""

import time
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import cross_entropy

WARM_UP = 5  # batches: the first ones choose kernels, fill caches and compile


@dataclass(frozen=True)
class Score:
    """Mean `loss` and `accuracy` over `samples` samples of all ranks, at so many `images_per_second`."""

    loss: float
    accuracy: float
    samples: int
    images_per_second: float


class Meter:
    """Sums over the samples that this rank has seen since it was made.

    `before` are the sums of all ranks, as `totals` gave them, in an earlier go of the same epoch.
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
        """Count a batch: logits (N, classes), labels (N,), their mean `loss` if it is known; N may be 0."""
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
        """Return loss, correct answers and samples in all, so far in this epoch; every rank calls this."""
        totals = torch.stack([self.loss, self.correct.double(), self.loss.new_tensor(self.samples)])
        if dist.is_initialized():
            dist.all_reduce(totals)
        return tuple(now + then for now, then in zip(totals.tolist(), self.before, strict=True))

    def score(self) -> Score:
        """Add up all ranks, every sample weighing the same; every rank calls this and gets the same."""
        loss, correct, samples = self.totals()
        speed = self.timed * _world_size() / (time.perf_counter() - self.start)
        return Score(loss / samples, correct / samples, int(samples), speed)

    def _start_clock(self) -> None:
        if self.loss.is_cuda:
            torch.cuda.synchronize()
        self.timed, self.start = 0, time.perf_counter()


def _world_size() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1
