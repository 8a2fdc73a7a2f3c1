"""The configuration and its flags, for all scripts. Does not import torch, so that `--help` is fast."""

import argparse
import os
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from .tasks import CIFAR, CIFAR100, MNIST, TASKS, Task

__all__ = ["CIFAR", "CIFAR100", "MNIST", "TASKS", "Config", "Task", "parse_config"]


def positive_int(text: str) -> int:
    """Parse a positive whole number."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive whole number")
    return number


def non_negative_int(text: str) -> int:
    """Parse a whole number from 0."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return number


def fraction(text: str) -> float:
    """Parse a number from 0 to 1."""
    number = float(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return number


def worker_count(text: str) -> int:
    """Parse a number of workers; `auto` is the number of CPUs of this process minus one."""
    return max(1, len(os.sched_getaffinity(0)) - 1) if text == "auto" else non_negative_int(text)


_WHOLE, _COUNT = {"type": positive_int, "metavar": "N"}, {"type": non_negative_int, "metavar": "N"}
_REAL, _SWITCH = {"type": float, "metavar": "X"}, {"action": argparse.BooleanOptionalAction}
_TASK = object()  # the default is the task's


def _flag(group: str, text: str, default: Any = _TASK, **options: Any) -> Any:
    return field(metadata={"group": group, "help": text, "default": default, **options})


@dataclass(frozen=True)
class Config:
    """The options of a run. Each field is a flag, with `-` instead of `_`."""

    task: Task

    epochs: int = _flag("training", "passes over the training set", **_WHOLE)
    batch_size: int = _flag(
        "training",
        "GLOBAL batch size: samples of one step over all ranks, divided evenly among them, so that "
        "the result does not depend on the number of ranks; an incomplete last batch is dropped",
        **_WHOLE,
    )
    batch_size_per_rank: int | None = _flag(
        "training", "samples of one step on ONE rank, instead of --batch-size", None, **_WHOLE
    )
    accumulate: int = _flag(
        "training", "split each step into N parts to save memory; ranks synchronize once per step", 1,
        **_WHOLE,
    )  # fmt: skip
    model: str = _flag("training", "the model to train")
    width: int = _flag("training", "width of wideresnet; 10 is WRN-28-10, which is slow", 10, **_WHOLE)
    optimizer: str = _flag("training", "sgd has Nesterov momentum 0.9", choices=("sgd", "adamw"))
    lr: float = _flag("training", "highest learning rate, at the task's default batch size", **_REAL)
    lr_scaling: str = _flag(
        "training",
        "how --lr scales with the global batch size: with the ratio, its square root, or not",
        choices=("linear", "sqrt", "none"),
    )
    warmup_epochs: float = _flag(
        "training", "epochs of rising learning rate, before a cosine to 0", 1.0, **_REAL
    )
    weight_decay: float = _flag("training", "for matrices and kernels, not for norms and biases", **_REAL)
    label_smoothing: float = _flag("training", "share of the label given to all classes", 0.0, type=fraction)
    target_accuracy: float | None = _flag(
        "training",
        "stop early after --target-epochs with this test accuracy (0 to 1)",
        None,
        type=fraction,
    )
    target_epochs: int = _flag("training", "see --target-accuracy", 2, **_WHOLE)
    seed: int = _flag(
        "training", "fixes the initial weights, the order of the data and its augmentation", 0, **_COUNT
    )

    data: str = _flag("data", "the data set; downloaded if missing, except generated ones")
    data_dir: Path = _flag(
        "data", "folder of the data; one rank downloads them while the others wait", Path("data"),
        type=Path, metavar="DIR",
    )  # fmt: skip
    limit: int | None = _flag(
        "data", "a quick run: train on the first N samples and test on the first N/5", None, **_WHOLE
    )
    workers: int = _flag(
        "data",
        "0 keeps all data on the device, which is fastest; otherwise N or `auto` processes per rank load "
        "batches from CPU memory, at most one per CPU",
        0,
        type=worker_count,
        metavar="N",
    )
    crop_padding: int = _flag(
        "data", "shift training images by up to this many pixels, with reflected edges", **_COUNT
    )
    flip: bool = _flag("data", "mirror half of the training images", **_SWITCH)
    cutout: int = _flag(
        "data", "replace a random square of this side by grey in each training image", 0, **_COUNT
    )

    strategy: str = _flag(
        "speed", "ddp: a complete model per rank; fsdp: shards of weights, gradients and optimizer", "ddp",
        choices=("ddp", "fsdp"),
    )  # fmt: skip
    device: str = _flag("speed", "auto: a GPU if available", "auto", choices=("auto", "cpu", "cuda"))
    precision: str = _flag(
        "speed",
        "of matrix products; weights stay in fp32, fp16 uses a loss scaler",
        "fp32",
        choices=("fp32", "bf16", "fp16"),
    )
    tf32: bool = _flag("speed", "use TF32 for fp32 matrix products on GPUs", True, **_SWITCH)
    channels_last: bool = _flag(
        "speed", "keep images as (N, H, W, C), which is faster on tensor cores", False, **_SWITCH
    )
    compile: bool = _flag(
        "speed", "compile the model with torch.compile: slower start, faster steps", False, **_SWITCH
    )
    fused: bool = _flag("speed", "use the fused optimizer", True, **_SWITCH)
    bucket_mb: int = _flag("speed", "size of DDP's gradient buckets in MB", 25, **_WHOLE)
    static_graph: bool = _flag(
        "speed", "declare to DDP that every step uses the same weights", False, **_SWITCH
    )

    run_dir: Path | None = _flag(
        "run",
        "write metrics.jsonl, summary.json and checkpoints to this folder, and continue from its checkpoint; "
        "default: write nothing",
        None,
        type=Path,
        metavar="DIR",
    )
    margin: int = _flag(
        "run",
        "with --run-dir: save and exit with status 75 this many seconds before SLURM_JOB_END_TIME, "
        "or in the last quarter of a short job",
        60,
        **_COUNT,
    )
    check_every: int = _flag("run", "steps between two checks whether to stop", 10, **_WHOLE)
    tensorboard: bool = _flag("run", "also write TensorBoard events to --run-dir", False, **_SWITCH)
    start_timeout: int = _flag(
        "run", "seconds to wait for the other ranks before the missing ones are reported", 300, **_WHOLE
    )
    crash_rank: int | None = _flag(
        "run", "to test your cluster: this rank fails on purpose before the first step", None,
        type=non_negative_int, metavar="R",
    )  # fmt: skip
    crash_step: int = _flag("run", "steps after which --crash-rank fails", 0, **_COUNT)

    def global_batch_size(self, world_size: int) -> int:
        """Return the number of samples of one step over all ranks."""
        return self.batch_size_per_rank * world_size if self.batch_size_per_rank else self.batch_size


def parse_config(task: Task, argv: list[str] | None = None) -> Config:
    """Parse the command line (`argv`, default: that of the process) for `task`."""
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
