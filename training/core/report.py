"""The output of a run, and its files in `--run-dir`; mostly from rank 0."""

import hashlib
import json
import os
import resource
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from .config import Config
from .measure import Score
from .process import Process, gather, say

T = TypeVar("T")


@dataclass(frozen=True)
class Epoch:
    """One line of metrics.jsonl. `seconds` since the start of the run, without interruptions."""

    epoch: int  # from 1
    world_size: int
    train_loss: float
    train_accuracy: float
    test_loss: float
    test_accuracy: float
    test_samples: int
    images_per_second: float  # in training, total of all ranks
    lr: float
    seconds: float


class Reporter:
    """Reports each epoch, and rewrites metrics.jsonl from its history."""

    def __init__(self, process: Process, config: Config) -> None:
        self.process, self.config = process, config
        self.start = time.perf_counter()
        self.history: tuple[Epoch, ...] = ()

    @property
    def seconds(self) -> float:
        """Total time of the run, including earlier parts."""
        return time.perf_counter() - self.start

    def resume(self, history: Sequence[dict[str, Any]], seconds: float) -> None:
        """Continue with the history and time of an earlier part of the run."""
        self.history = tuple(Epoch(**each) for each in history)
        self.start -= seconds

    def add(self, train: Score, test: Score, lr: float) -> None:
        """Report an epoch."""
        record = Epoch(
            epoch=len(self.history) + 1,
            world_size=self.process.world_size,
            train_loss=train.loss,
            train_accuracy=train.accuracy,
            test_loss=test.loss,
            test_accuracy=test.accuracy,
            test_samples=test.samples,
            images_per_second=train.images_per_second,
            lr=lr,
            seconds=self.seconds,
        )
        self.history += (record,)
        if self.process.rank == 0:
            say(
                f"epoch {record.epoch}/{self.config.epochs}  train loss {train.loss:.4f}  test accuracy "
                f"{test.accuracy:.4f}  {train.images_per_second:.0f} images/s  {self.seconds:.1f} s"
            )
            self._write(record)

    @property
    def reached(self) -> bool:
        """Whether the last epochs reached the target accuracy; the same on every rank."""
        target, epochs = self.config.target_accuracy, self.config.target_epochs
        last = [each.test_accuracy for each in self.history[-epochs:]]
        return target is not None and len(last) == epochs and min(last) >= target

    @property
    def finished(self) -> bool:
        """Whether the training is complete."""
        return self.reached or len(self.history) >= self.config.epochs

    def end(self, model: nn.Module) -> None:
        """Report the final loss and weights of every rank, which must be equal, and the result."""
        last = self.history[-1]
        rank = f"rank {self.process.rank}/{self.process.world_size}"
        say(f"{rank} final_loss {last.train_loss:.6f} params {fingerprint(model)}")
        peaks = gather(_peak_memory(self.process.device))
        if self.process.rank == 0:
            summary = self._summary(max(peaks))
            say(
                f"summary: {summary['images_per_second']:.0f} images/s in total, "
                f"{summary['images_per_second_per_rank']:.0f} a rank, {last.seconds:.1f} s, "
                f"peak memory {summary['peak_memory_mb']} MB a rank"
            )
            say(
                f"done: accuracy {last.test_accuracy:.4f}, test loss {last.test_loss:.4f}, "
                f"{last.test_samples} test images, {last.epoch} epochs, world size {self.process.world_size}"
            )
            if self.config.run_dir:
                write_whole(self.config.run_dir / "summary.json", json.dumps(summary, indent=2) + "\n")

    def _summary(self, peak: int) -> dict[str, Any]:
        last, world_size = self.history[-1], self.process.world_size
        speed = sum(each.images_per_second for each in self.history) / len(self.history)
        return {
            "accuracy": last.test_accuracy,
            "test_loss": last.test_loss,
            "epochs": last.epoch,
            "seconds": last.seconds,
            "world_size": world_size,
            "images_per_second": speed,
            "images_per_second_per_rank": speed / world_size,
            "peak_memory_mb": peak // 2**20,
            "reached_target": self.reached,
        }

    def _write(self, record: Epoch) -> None:
        folder = self.config.run_dir
        if folder is None:
            return
        lines = "".join(json.dumps(asdict(each)) + "\n" for each in self.history)
        write_whole(folder / "metrics.jsonl", lines)
        if self.config.tensorboard:
            _write_events(folder / "tensorboard", record)


def progress(items: Iterable[T], length: int, process: Process) -> Iterator[T]:
    """Yield the items, with a progress bar on rank 0 if stderr is a terminal."""
    if process.rank or not sys.stderr.isatty():
        yield from items
        return
    for number, item in enumerate(items, 1):
        yield item
        done = 40 * number // length
        sys.stderr.write(f"\r[{'#' * done:<40}] {number}/{length}" + "\r\033[K" * (number == length))
        sys.stderr.flush()


def fingerprint(model: nn.Module) -> str:
    """Return a short hash of the weights; with FSDP, all ranks must call it."""
    vector = torch.cat([_whole(weight).flatten() for weight in model.parameters()])
    return hashlib.sha256(vector.numpy().tobytes()).hexdigest()[:8]


def write_whole(path: Path, text: str) -> None:
    """Write a file under a temporary name, and rename it when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text)
    partial.replace(path)


def _whole(weight: Tensor) -> Tensor:
    whole = weight.full_tensor() if hasattr(weight, "full_tensor") else weight  # type: ignore[operator]
    return whole.detach().cpu()


def _peak_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _write_events(folder: Path, record: Epoch) -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder)) as writer:
        for name, value in asdict(record).items():
            writer.add_scalar(name, value, record.epoch)
