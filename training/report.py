"""The output of a run: a line and a record per epoch, the metrics of steps, the models, and a summary."""

import hashlib
import json
import math
import os
import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from device import peak_flops, peak_memory
from ranks import Ranks
from resume import write
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

T = TypeVar("T")
WARM_UP = 5  # batches that select kernels, fill caches and compile


class Meter:
    """Loss, accuracy and speed over all ranks. `before`: the totals of an earlier part of the epoch."""

    def __init__(
        self, ranks: Ranks, batches: int, before: Iterable[float] = (0.0, 0.0, 0.0), warm: bool = False
    ) -> None:
        self.ranks, self.before, self.done = ranks, before, 0
        self.warm_up = 0 if warm else min(WARM_UP, batches // 2)
        self.loss = torch.zeros((), dtype=torch.float64, device=ranks.device)
        self.correct, self.samples = (
            torch.zeros((), dtype=torch.int64, device=ranks.device) for _ in range(2)
        )
        self._start_clock()

    def add(self, logits: Tensor, labels: Tensor, loss: Tensor | None = None) -> None:
        """Add logits (N, classes) for labels (N,), -1 if one does not count, and the mean `loss` if known."""
        logits = logits.detach()
        if loss is None:
            self.loss += cross_entropy(logits.float(), labels, ignore_index=-1, reduction="sum")
            self.samples += (labels >= 0).sum()
        else:
            self.loss.add_(loss.detach(), alpha=len(labels))
            self.samples += len(labels)
        self.correct += (logits.argmax(1) == labels).sum()
        self.done, self.timed = self.done + 1, self.timed + len(labels)
        if self.done == self.warm_up:
            self._start_clock()

    def stop(self) -> None:
        """Stop the clock."""
        if self.loss.is_cuda:
            torch.cuda.synchronize()
        self.images_per_second = self.timed * self.ranks.world_size / (time.perf_counter() - self.start)

    def totals(self) -> list[float]:
        """Return total loss, correct predictions and samples of this epoch. All ranks must call this."""
        totals = torch.stack([self.loss, self.correct.double(), self.samples.double()])
        if self.ranks.world_size > 1:
            dist.all_reduce(totals)
        return [now + before for now, before in zip(totals.tolist(), self.before, strict=True)]

    def score(self, name: str) -> dict[str, float]:
        """Return mean loss, accuracy and samples as NAME_loss and so on. All ranks must call this."""
        loss, correct, samples = self.totals()
        return {
            f"{name}_loss": loss / samples,
            f"{name}_accuracy": correct / samples,
            f"{name}_samples": int(samples),
        }

    def _start_clock(self) -> None:
        if self.loss.is_cuda:
            torch.cuda.synchronize()
        self.timed, self.start = 0, time.perf_counter()


class Report:
    """Prints each epoch, and writes metrics.jsonl, steps.jsonl, summary.json and the models to --run-dir."""

    def __init__(self, options: Namespace, ranks: Ranks, flops: float = 0) -> None:
        """`flops`: floating-point operations of one image, forward and backward."""
        self.options, self.ranks, self.flops = options, ranks, flops
        self.folder = options.run_dir if ranks.rank == 0 else None
        self.start = time.perf_counter()
        self.epochs: list[dict[str, Any]] = []
        self.restored = 0  # epochs of an earlier process
        self.steps: list[tuple[int, float, Tensor]] = []

    @property
    def seconds(self) -> float:
        """Total time of the run, including earlier parts."""
        return time.perf_counter() - self.start

    @property
    def warm(self) -> bool:
        """Whether this process has trained an epoch, and so selected its kernels and compiled."""
        return len(self.epochs) > self.restored

    def state(self) -> dict[str, Any]:
        """Return what a continued run needs."""
        return {"epochs": self.epochs, "seconds": self.seconds}

    def restore(self, state: dict[str, Any], step: int) -> None:
        """Continue after `step`: later lines of steps.jsonl belong to steps that are repeated."""
        self.epochs, self.start = state["epochs"], self.start - state["seconds"]
        self.restored = len(self.epochs)
        path = self.folder and self.folder / "steps.jsonl"
        if path and path.exists():
            # A process that was killed may have left a part of a line.
            lines = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
            write(path, "".join(line for line in lines if json.loads(line)["step"] <= step))

    def step(self, step: int, lr: float, loss: Tensor, norm: Tensor | None) -> None:
        """Note the metrics of a step on the device; reading them here would wait for it."""
        if self.options.run_dir and step % self.options.log_every == 0:
            norm = loss.new_tensor(math.nan) if norm is None else norm
            self.steps.append((step, lr, torch.stack([loss.detach(), norm.detach()])))

    def flush(self) -> None:
        """Write the noted steps. All ranks must call this."""
        if not self.steps:
            return
        values = torch.stack([values for _, _, values in self.steps])
        if self.ranks.world_size > 1:
            dist.all_reduce(values)
        rows = zip(self.steps, (values / self.ranks.world_size).tolist(), strict=True)
        lines = [
            {"step": step, "lr": lr, "loss": loss, "grad_norm": norm} for (step, lr, _), (loss, norm) in rows
        ]
        self.steps = []
        if self.folder:
            with (self.folder / "steps.jsonl").open("a") as file:
                file.writelines(to_json(line) + "\n" for line in lines)

    def epoch(self, train: Meter, test: Meter, lr: float, name: str) -> None:
        """Report an epoch. `name`: the set that `test` has measured. All ranks must call this."""
        self.flush()
        scores = train.score("train") | test.score(name)
        number = len(self.epochs) + 1
        self._agree(math.isfinite(scores["train_loss"] + scores[f"{name}_loss"]), "the loss", number)
        del scores["train_samples"]
        record = {"epoch": number, "world_size": self.ranks.world_size, **scores}
        record |= {"images_per_second": train.images_per_second, "lr": lr, "seconds": self.seconds}
        self.epochs.append(record)
        if self.ranks.rank == 0:
            self.ranks.say(
                f"epoch {number}/{self.options.epochs}  train loss {scores['train_loss']:.4f}  "
                f"{name} accuracy {scores[f'{name}_accuracy']:.4f}  {train.images_per_second:.0f} images/s  "
                f"{self.seconds:.1f} s"
            )
        if self.folder:
            write(self.folder / "metrics.jsonl", "".join(to_json(each) + "\n" for each in self.epochs))
            if self.options.tensorboard:
                write_events(self.folder / "tensorboard", record)

    def check(self, sums: list[float], model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """End the run if it would save a NaN: in a sum, a weight, or a state of the optimizer.

        All ranks must call this before they save, so that no checkpoint ever holds a NaN.
        """
        states = (each for state in optimizer.state.values() for each in state.values())
        tensors = [*model.parameters(), *(each for each in states if isinstance(each, Tensor))]
        number = len(self.epochs) + any(sums)
        self._agree(all(map(math.isfinite, sums)), "the loss", number)
        self._agree(finite(tensors), "a weight or a state of the optimizer", number)

    def _agree(self, right: bool, what: str, epoch: int) -> None:
        wrong = (
            f"{what} is NaN or infinite in epoch {epoch}. No checkpoint holds it. Lower --lr, clip the "
            "gradients (--clip-norm 1), or use --precision bf16 or fp32."
        )
        self.ranks.agree(None if right else wrong, status=1)

    def is_best(self, name: str) -> bool:
        """Return whether the last epoch is the best so far."""
        return self.epochs[-1][f"{name}_accuracy"] >= max(each[f"{name}_accuracy"] for each in self.epochs)

    def finished(self, name: str) -> bool:
        """Return whether the training is complete, or has reached its target; the same on every rank."""
        target, last = self.options.target_accuracy, self.epochs[-self.options.target_epochs :]
        reached = target is not None and len(last) == self.options.target_epochs
        reached = reached and min(each[f"{name}_accuracy"] for each in last) >= target
        return reached or len(self.epochs) >= self.options.epochs

    def end(self, model: nn.Module, test: Meter | None = None) -> None:
        """Report the result, and each rank's loss and weights, which must be equal. All ranks must call this.

        `test` has measured the test set, if the epochs did not."""
        last = self.epochs[-1] | (test.score("test") if test else {})
        rank = f"rank {self.ranks.rank}/{self.ranks.world_size}"
        if not self.warm and self.ranks.rank == 0:
            self.ranks.say("this run was finished already: nothing was trained")
        self.ranks.say(f"{rank} final_loss {last['train_loss']:.6f} params {fingerprint(model)}")
        summary = self._summary(last, max(self.ranks.gather(peak_memory(self.ranks.device))))
        if self.ranks.rank == 0:
            mfu = f", MFU {summary['mfu']:.1%}" if summary["mfu"] else ""
            self.ranks.say(
                f"summary: {summary['images_per_second']:.0f} images/s in total, "
                f"{summary['images_per_second_per_rank']:.0f} per rank{mfu}, {last['seconds']:.1f} s, "
                f"peak memory {summary['peak_memory_mb']} MB per rank"
            )
            self.ranks.say(
                f"done: accuracy {last['test_accuracy']:.4f}, test loss {last['test_loss']:.4f}, "
                f"{last['test_samples']} test images, {last['epoch']} epochs, "
                f"world size {self.ranks.world_size}"
            )
        if self.folder:
            write(self.folder / "summary.json", to_json(summary, indent=2) + "\n")

    def _summary(self, last: dict[str, Any], memory: int) -> dict[str, Any]:
        speed = sum(each["images_per_second"] for each in self.epochs) / len(self.epochs)
        each, peak = speed / last["world_size"], peak_flops(self.ranks.device)
        return {
            "accuracy": last["test_accuracy"],
            "test_loss": last["test_loss"],
            "epochs": last["epoch"],
            "seconds": last["seconds"],
            "world_size": self.ranks.world_size,
            "images_per_second": speed,
            "images_per_second_per_rank": each,
            "gflop_per_image": self.flops / 1e9,
            "mfu": each * self.flops / peak if peak else None,
            "peak_memory_mb": memory // 2**20,
        }


def finite(tensors: Iterable[Tensor]) -> bool:
    """Return whether none of the numbers, or of this rank's shards of them, is NaN or infinite."""
    parts = (each.to_local() if hasattr(each, "to_local") else each for each in tensors)
    return all(bool(each.isfinite().all()) for each in parts)


def to_json(value: dict[str, Any], indent: int | None = None) -> str:
    """Return JSON, which has no NaN."""
    valid = {
        key: None if isinstance(each, float) and not math.isfinite(each) else each
        for key, each in value.items()
    }
    return json.dumps(valid, indent=indent, allow_nan=False)


def progress(items: Iterable[T], length: int, ranks: Ranks) -> Iterator[T]:
    """Yield the items, with a progress bar on rank 0 if stderr is a terminal."""
    shown = ranks.rank == 0 and sys.stderr.isatty()
    for number, item in enumerate(items, 1):
        yield item
        if shown:
            done = 40 * number // length
            sys.stderr.write(f"\r[{'#' * done:<40}] {number}/{length}" + "\r\033[K" * (number == length))
            sys.stderr.flush()


def whole(weight: Tensor) -> Tensor:
    """Return a weight on the CPU, complete if it is sharded; then all ranks must call this."""
    return (weight.full_tensor() if hasattr(weight, "full_tensor") else weight).detach().cpu()


def fingerprint(model: nn.Module) -> str:
    """Return a short hash of the weights. All ranks must call this."""
    vector = torch.cat([whole(weight).flatten() for weight in model.parameters()])
    return hashlib.sha256(vector.numpy().tobytes()).hexdigest()[:8]


def export(model: nn.Module, path: Path, ranks: Ranks) -> None:
    """Write the weights as one file, for `load_state_dict` anywhere. All ranks must call this."""
    weights = {name: whole(value) for name, value in model.state_dict().items()}
    if ranks.rank == 0:
        torch.save(weights, path.with_suffix(".partial"))
        path.with_suffix(".partial").replace(path)


def write_events(folder: Path, record: dict[str, Any]) -> None:
    """Write an epoch for TensorBoard."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder)) as writer:
        for name, value in record.items():
            writer.add_scalar(name, value, record["epoch"])
