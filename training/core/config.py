"""One configuration and its flags, the same for every script. No torch, so that `--help` answers at once."""

import argparse
import os
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from .tasks import CIFAR, CIFAR100, MNIST, TASKS, Task

__all__ = ["CIFAR", "CIFAR100", "MNIST", "TASKS", "Config", "Task", "parse_config"]


def positive_int(text: str) -> int:
    """Read a count of which there must be one."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive whole number")
    return number


def non_negative_int(text: str) -> int:
    """Read a count of which there may be none."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return number


def fraction(text: str) -> float:
    """Read a number from 0 to 1."""
    number = float(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return number


def worker_count(text: str) -> int:
    """Read a number of workers; `auto` is as many as this process has CPUs, but for its own."""
    return max(1, len(os.sched_getaffinity(0)) - 1) if text == "auto" else non_negative_int(text)


_WHOLE, _COUNT = {"type": positive_int, "metavar": "N"}, {"type": non_negative_int, "metavar": "N"}
_REAL, _SWITCH = {"type": float, "metavar": "X"}, {"action": argparse.BooleanOptionalAction}
_TASK = object()  # the default is the task's


def _flag(group: str, text: str, default: Any = _TASK, **options: Any) -> Any:
    return field(metadata={"group": group, "help": text, "default": default, **options})


@dataclass(frozen=True)
class Config:
    """What one run was asked to do; each field is a flag, with `_` for `-`."""

    task: Task

    epochs: int = _flag("training", "passes over the training set", **_WHOLE)
    batch_size: int = _flag(
        "training",
        "GLOBAL batch size: samples of one step over all ranks, divided evenly among them, so that "
        "a run on more ranks learns the same; a last batch that is not full is left out",
        **_WHOLE,
    )
    batch_size_per_rank: int | None = _flag(
        "training", "samples of one step on ONE rank, in place of --batch-size", None, **_WHOLE
    )
    accumulate: int = _flag(
        "training", "do each step in this many parts, which need less memory; ranks meet after the last", 1,
        **_WHOLE,
    )  # fmt: skip
    model: str = _flag("training", "what to train")
    width: int = _flag("training", "width of wideresnet: 10 is WRN-28-10, which takes its time", 10, **_WHOLE)
    optimizer: str = _flag("training", "sgd has Nesterov momentum 0.9", choices=("sgd", "adamw"))
    lr: float = _flag("training", "highest learning rate, at the task's default batch size", **_REAL)
    lr_scaling: str = _flag(
        "training",
        "what another global batch size does to --lr: multiply it by the ratio, by its root, or nothing",
        choices=("linear", "sqrt", "none"),
    )
    warmup_epochs: float = _flag(
        "training", "epochs of rising learning rate, before a cosine to 0", 1.0, **_REAL
    )
    weight_decay: float = _flag("training", "of matrices and kernels; norms and biases are spared", **_REAL)
    label_smoothing: float = _flag("training", "share of the label given to all classes", 0.0, type=fraction)
    target_accuracy: float | None = _flag(
        "training",
        "stop early when the test accuracy was this, from 0 to 1, for --target-epochs",
        None,
        type=fraction,
    )
    target_epochs: int = _flag("training", "see --target-accuracy", 2, **_WHOLE)
    seed: int = _flag(
        "training", "fixes the initial weights, the order of the data and its augmentation", 0, **_COUNT
    )

    data: str = _flag(
        "data", "what to train on; what is not made on the spot is downloaded where it is missing"
    )
    data_dir: Path = _flag(
        "data", "where the data are, or are put by one rank while the others wait", Path("data"),
        type=Path, metavar="DIR",
    )  # fmt: skip
    limit: int | None = _flag(
        "data", "a quick run: train on the first N samples and test on the first N/5", None, **_WHOLE
    )
    workers: int = _flag(
        "data",
        "0 keeps all data on the device, which is fastest; N or `auto` processes of each rank fetch batches "
        "from the CPU's memory, never more than it has CPUs",
        0,
        type=worker_count,
        metavar="N",
    )
    crop_padding: int = _flag(
        "data", "shift training images by up to this many pixels, reflected in", **_COUNT
    )
    flip: bool = _flag("data", "mirror half of the training images", **_SWITCH)
    cutout: int = _flag(
        "data", "grey out a square of this side somewhere in each training image", 0, **_COUNT
    )

    strategy: str = _flag(
        "speed", "ddp: a whole model on each rank; fsdp: weights, gradients and optimizer in shards", "ddp",
        choices=("ddp", "fsdp"),
    )  # fmt: skip
    device: str = _flag(
        "speed", "auto takes a GPU where there is one", "auto", choices=("auto", "cpu", "cuda")
    )
    precision: str = _flag(
        "speed",
        "of matrix products: weights stay in fp32. fp16 comes with a loss scaler",
        "fp32",
        choices=("fp32", "bf16", "fp16"),
    )
    tf32: bool = _flag("speed", "let an fp32 GPU round the factors of products to 10 bits", True, **_SWITCH)
    channels_last: bool = _flag(
        "speed", "keep images as (N, H, W, C), as tensor cores like it", False, **_SWITCH
    )
    compile: bool = _flag("speed", "torch.compile the model: slow to start, then faster", False, **_SWITCH)
    fused: bool = _flag("speed", "one kernel for the optimizer", True, **_SWITCH)
    bucket_mb: int = _flag("speed", "DDP adds up gradients in buckets of this many MB", 25, **_WHOLE)
    static_graph: bool = _flag("speed", "tell DDP that every step uses the same weights", False, **_SWITCH)

    run_dir: Path | None = _flag(
        "run",
        "write metrics.jsonl, summary.json and the checkpoint here, and go on from a checkpoint found here; "
        "without it nothing is written",
        None,
        type=Path,
        metavar="DIR",
    )
    margin: int = _flag(
        "run",
        "with --run-dir: save and leave with status 75 this many seconds before SLURM_JOB_END_TIME, "
        "or in the last quarter of a short job",
        60,
        **_COUNT,
    )
    check_every: int = _flag("run", "steps between two looks at whether it is time to leave", 10, **_WHOLE)
    tensorboard: bool = _flag("run", "write TensorBoard events too, into --run-dir", False, **_SWITCH)
    start_timeout: int = _flag(
        "run", "seconds to wait for the other ranks, before saying which are missing", 300, **_WHOLE
    )
    crash_rank: int | None = _flag(
        "run", "for testing your cluster: this rank fails on purpose, before the first step", None,
        type=non_negative_int, metavar="R",
    )  # fmt: skip
    crash_step: int = _flag("run", "steps after which --crash-rank fails", 0, **_COUNT)

    def global_batch_size(self, world_size: int) -> int:
        """Return the samples of one step over all ranks."""
        return self.batch_size_per_rank * world_size if self.batch_size_per_rank else self.batch_size


def parse_config(task: Task, argv: list[str] | None = None) -> Config:
    """Read the command line (`argv`, or the process's own) for `task`."""
    parser = argparse.ArgumentParser(description=f"Train on {task.data[0]}.", allow_abbrev=False)
    groups: dict[str, Any] = {}
    for each in fields(Config):
        if each.name != "task":
            options = dict(each.metadata)
            name = options.pop("group")
            groups.setdefault(name, parser.add_argument_group(name) if name not in groups else None)
            _add(groups[name], each.name, options, task)
    return Config(task=task, **vars(parser.parse_args(argv)))


def _add(group: Any, name: str, options: dict[str, Any], task: Task) -> None:
    chosen = {"model": task.models, "data": task.data}.get(name)
    if chosen:
        options.update(choices=chosen, default=chosen[0])
    elif options["default"] is _TASK:
        options["default"] = getattr(task, name)
    if options["default"] not in (None, MISSING):
        options["help"] += " (default: %(default)s)"
    group.add_argument(f"--{name.replace('_', '-')}", **options)
