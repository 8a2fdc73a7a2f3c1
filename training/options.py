"""The flags of the training scripts. Does not import torch.

Each flag is one line of FLAGS; its default may depend on the task. `fault` names what cannot work together.
"""

import argparse
from argparse import BooleanOptionalAction, Namespace
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from sysconfig import get_path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from ranks import Ranks


@dataclass(frozen=True)
class Task:
    """A data set, and what the flags default to. The first of `data` and of `models` is the default."""

    data: tuple[str, ...]
    models: tuple[str, ...]
    classes: int
    channels: int
    side: int  # height and width in pixels
    mean: tuple[float, ...]  # of each channel, from 0 to 1
    std: tuple[float, ...]
    defaults: dict[str, Any]


CIFAR = {
    "epochs": 30, "batch_size": 128, "lr": 0.1, "lr_scaling": "linear", "optimizer": "sgd",
    "weight_decay": 5e-4, "crop_padding": 4, "flip": True,
}  # fmt: skip
MNIST = {
    # AdamW's steps do not grow with the gradient, hence the square root. Mirrored digits are not digits.
    "epochs": 10, "batch_size": 64, "lr": 2e-3, "lr_scaling": "sqrt", "optimizer": "adamw",
    "weight_decay": 1e-2, "crop_padding": 0, "flip": False,
}  # fmt: skip
TASKS = {
    "cifar10": Task(
        ("cifar10", "synthetic"), ("resnet18", "wideresnet", "mlp", "cnn"), 10, 3, 32,
        (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616), CIFAR,
    ),
    "cifar100": Task(
        ("cifar100", "synthetic"), ("wideresnet", "resnet18", "mlp", "cnn"), 100, 3, 32,
        (0.5071, 0.4866, 0.4409), (0.2673, 0.2564, 0.2762), CIFAR | {"epochs": 60},
    ),
    "mnist": Task(
        ("mnist", "digits", "synthetic"), ("mlp", "cnn"), 10, 1, 28, (0.1307,), (0.3081,), MNIST
    ),
}  # fmt: skip


def positive(text: str) -> int:
    """Parse a whole number from 1."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive whole number")
    return number


def count(text: str) -> int:
    """Parse a whole number from 0 that fits 63 bits."""
    if not 0 <= (number := int(text)) < 2**63:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 2^63 - 1")
    return number


def number_from_0(text: str) -> float:
    """Parse a number from 0."""
    if not 0 <= (number := float(text)) < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0")
    return number


def fraction(text: str) -> float:
    """Parse a number from 0 to 1."""
    if not 0 <= (number := float(text)) <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return number


def workers(text: str) -> int | str:
    """Parse a whole number from 0, or `auto`."""
    return text if text == "auto" else count(text)


N: dict[str, Any] = {"type": positive, "metavar": "N"}
N0: dict[str, Any] = {"type": count, "metavar": "N"}
X: dict[str, Any] = {"type": number_from_0, "metavar": "X"}
SHARE: dict[str, Any] = {"type": fraction, "metavar": "X"}
SWITCH: dict[str, Any] = {"action": BooleanOptionalAction}
DIR: dict[str, Any] = {"type": Path, "metavar": "DIR"}
TASK = object()  # the default is the task's

Flags = dict[str, list[tuple[str, Any, str, dict[str, Any]]]]
FLAGS: Flags = {  # group: [(flag, default, help, options of argparse)]
    "training": [
        ("epochs", TASK, "passes over the training set", N),
        ("batch_size", TASK, "GLOBAL batch size: samples of one step over all ranks, divided evenly among them; an incomplete last batch is dropped", N),
        ("batch_size_per_rank", None, "samples of one step on ONE rank, instead of --batch-size", N),
        ("accumulate", 1, "split each step into N parts to save memory; ranks synchronize once per step", N),
        ("model", TASK, "the model to train", {}),
        ("width", 10, "width of wideresnet; 10 is WRN-28-10, which is slow", N),
        ("optimizer", TASK, "sgd has Nesterov momentum 0.9", {"choices": ("sgd", "adamw")}),
        ("lr", TASK, "highest learning rate, at the task's default batch size", X),
        ("lr_scaling", TASK, "how --lr scales with the global batch size: with the ratio, its square root, or not", {"choices": ("linear", "sqrt", "none")}),
        ("warmup_epochs", 1.0, "epochs of rising learning rate, before a cosine to 0", X),
        ("weight_decay", TASK, "for matrices and kernels, not for norms and biases", X),
        ("label_smoothing", 0.0, "share of the label given to all classes", SHARE),
        ("clip_norm", None, "clip the norm of the gradients of all weights to X", X),
        ("sync_batchnorm", False, "BatchNorm over the batches of all ranks; without it, more ranks normalize smaller batches and learn differently", SWITCH),
        ("target_accuracy", None, "stop early after --target-epochs with this accuracy (0 to 1)", SHARE),
        ("target_epochs", 2, "see --target-accuracy", N),
        ("seed", 0, "fixes the initial weights, the order of the data and its augmentation", N0),
    ],
    "data": [
        ("data", TASK, "the data set; downloaded if missing; digits and synthetic need no network", {}),
        ("data_dir", Path("data"), "folder of the data; one rank per node downloads them while the others wait", DIR),
        ("limit", None, "a quick run: train on the first N samples and test on the first N/5", N),
        ("val_samples", 0, "hold out N training samples: they measure each epoch and select the best model; the test set is then used once, at the end", N0),
        ("workers", 0, "0 keeps all data on the device, which is fastest; otherwise N processes per rank load batches; auto: all CPUs of the rank but one", {"type": workers, "metavar": "N"}),
        ("crop_padding", TASK, "shift training images by up to this many pixels, with reflected edges", N0),
        ("flip", TASK, "mirror half of the training images", SWITCH),
        ("cutout", 0, "replace a random square of this side by grey in each training image", N0),
    ],
    "speed": [
        ("device", "auto", "auto: a GPU if available", {"choices": ("auto", "cpu", "cuda")}),
        ("precision", "auto", "of matrix products; weights stay in fp32, fp16 uses a loss scaler; auto: bf16 on a GPU that has it, fp16 on an older one, fp32 on CPUs", {"choices": ("auto", "fp32", "bf16", "fp16")}),
        ("tf32", True, "use TF32 for fp32 matrix products and convolutions on GPUs", SWITCH),
        ("channels_last", None, "keep images as (N, H, W, C), which is faster on tensor cores; default: on GPUs", SWITCH),
        ("compile", None, "compile the model: slower start, faster steps; default: on GPUs", SWITCH),
        ("fused", True, "use the fused optimizer", SWITCH),
        ("checkpoint_activations", False, "recompute each block's activations in the backward pass, to save memory", SWITCH),
    ],
    "run": [
        ("run_dir", None, "write metrics, models and checkpoints to this folder, and continue from its checkpoint; default: write nothing", DIR),
        ("save_every", 1, "epochs between two checkpoints", N),
        ("keep", 2, "checkpoints to keep, besides that of the best epoch among those saved", N),
        ("margin", 60, "with --run-dir: save and exit with status 75 this many seconds before SLURM_JOB_END_TIME, or in the last quarter of a short job", N0),
        ("check_every", 10, "steps between two checks whether to stop", N),
        ("log_every", 50, "with --run-dir: steps between two lines of steps.jsonl", N),
        ("tensorboard", False, "also write TensorBoard events to --run-dir", SWITCH),
        ("profile", False, "profile some steps: print the shares of computation, communication and waiting, and write a trace to --run-dir", SWITCH),
        ("topology", False, "at the start, print the CPUs and GPU of each rank, the links between GPUs, and NCCL's settings", SWITCH),
        ("start_timeout", 300, "seconds to wait for the other ranks, before the first step too; then the missing ones are named", N),
        ("step_timeout", 100, "seconds without progress, later, after which the rank that makes no progress is named and the run ends", N),
        ("crash_rank", None, "to test your cluster: this rank fails on purpose before the first step", N0),
        ("crash_step", 0, "steps after which --crash-rank fails", N0),
    ],
}  # fmt: skip
DDP: Flags = {
    "speed": [
        ("bucket_mb", 25, "size of DDP's gradient buckets in MB", N),
        ("static_graph", False, "declare to DDP that every step uses the same weights", SWITCH),
    ]
}
FSDP: Flags = {
    "speed": [("replicas", 1, "HSDP: copies of the model, each sharded over ranks / N; best one per node", N)]
}
STRATEGY: Flags = {
    "speed": [("strategy", "ddp", "a complete model per rank, or shards of it", {"choices": ("ddp", "fsdp")})]
}


class Parser(argparse.ArgumentParser):
    """Reports an error in one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with status 2."""
        self.exit(2, f"error: {message}. See --help.\n")


def parse_options(*more: Flags, argv: list[str] | None = None, **settings: str) -> Namespace:
    """Parse the command line: FLAGS and `more`. Exits with status 2 if it is invalid.

    `settings`: options that the script sets, not the user.
    """
    first = Parser(add_help=False, allow_abbrev=False)
    first.add_argument("--task", choices=TASKS, default="cifar10", help="what to learn (default: cifar10)")
    task = TASKS[first.parse_known_args(argv)[0].task]
    parser = Parser(parents=[first], allow_abbrev=False)
    sections = {group: parser.add_argument_group(group) for group in FLAGS}
    for flags in (FLAGS, *more):
        for group, entries in flags.items():
            for name, default, text, more_options in entries:
                default, known = _of_task(task, name, default, more_options)
                shown = text if default is None else f"{text} (default: {default})"
                sections[group].add_argument(f"--{name.replace('_', '-')}", help=shown, **known)
                parser.set_defaults(**{name: default})
    parser.set_defaults(**settings)
    return parser.parse_args(argv)


def _of_task(task: Task, name: str, default: Any, settings: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    choices = {"model": task.models, "data": task.data}.get(name)
    if choices:
        return choices[0], settings | {"choices": choices}
    return task.defaults[name] if default is TASK else default, settings


def can_compile() -> bool:
    """Return whether torch.compile finds what it needs on CPUs."""
    header = Path(get_path("include"), "Python.h")
    return bool(which("g++") or which("c++")) and header.exists()


def global_batch_size(options: Namespace, world_size: int) -> int:
    """Return the number of samples of one step over all ranks."""
    return options.batch_size_per_rank * world_size if options.batch_size_per_rank else options.batch_size


def scaled_lr(options: Namespace, world_size: int) -> float:
    """Return the highest learning rate: `--lr`, scaled if the batch size is not the task's default."""
    ratio = global_batch_size(options, world_size) / TASKS[options.task].defaults["batch_size"]
    return float(options.lr * ratio ** {"linear": 1.0, "sqrt": 0.5, "none": 0.0}[options.lr_scaling])


def fault(options: Namespace, world_size: int, device: str) -> str | None:
    """Return why these options cannot run on `world_size` ranks of `device` (cpu or cuda), or None."""
    size, parts = global_batch_size(options, world_size), world_size * options.accumulate
    side, fsdp = TASKS[options.task].side, getattr(options, "strategy", "ddp") == "fsdp"
    faults = {
        f"--batch-size {size} is not divisible by {world_size} ranks with --accumulate {options.accumulate}. "
        f"Use --batch-size {max(size // parts, 1) * parts}.": size % parts,
        f"--crash-rank {options.crash_rank} is not a rank. The last one is {world_size - 1}.": (
            options.crash_rank is not None and options.crash_rank >= world_size
        ),
        "--static-graph does not work with --accumulate: DDP fails on the second part of a step "
        "(pytorch issue 143580). Leave one of them out.": (
            getattr(options, "static_graph", False) and options.accumulate > 1
        ),
        "--sync-batchnorm needs GPUs. Use --device cuda, or leave it out.": (
            options.sync_batchnorm and device == "cpu"
        ),
        f"--replicas {getattr(options, 'replicas', 1)} does not divide the {world_size} ranks.": (
            world_size % getattr(options, "replicas", 1)
        ),
        "--channels-last does not work with FSDP, which shards only contiguous weights. Leave it out.": (
            fsdp and options.channels_last
        ),
        "--precision fp16 does not work with Lightning and FSDP: Lightning's loss scaler refuses shards. "
        "Use bf16, or train_fsdp.py.": fsdp
        and options.framework == "lightning"
        and options.precision == "fp16",
        "accelerate has FSDP only for GPUs. Use train_fsdp.py on CPUs.": (
            fsdp and options.framework == "accelerate" and device == "cpu"
        ),
        "accelerate has fp16 only for GPUs. Use --precision fp32 or bf16.": (
            options.framework == "accelerate" and device == "cpu" and options.precision == "fp16"
        ),
        f"--crop-padding {options.crop_padding} is more than {side - 1}, the image's side less one.": (
            options.crop_padding >= side
        ),
        "--tensorboard needs --run-dir. Add --run-dir DIR.": options.tensorboard and not options.run_dir,
        "tensorboard, which --tensorboard needs, is not installed. Install it: pip install tensorboard": (
            options.tensorboard and not find_spec("tensorboard")
        ),
        "--compile on CPUs needs a C++ compiler and Python.h (g++ and python3-dev). Leave it out.": (
            options.compile and device == "cpu" and not can_compile()
        ),
    }
    return next((text for text, wrong in faults.items() if wrong), None)


FIXED = (
    "task", "data", "model", "width", "batch_size", "accumulate", "seed", "limit", "val_samples", "strategy", "optimizer",
    "sync_batchnorm",
)  # fmt: skip
APPLIED = (
    "epochs", "lr", "lr_scaling", "warmup_epochs", "weight_decay", "label_smoothing", "clip_norm", "target_accuracy",
    "target_epochs", "crop_padding", "flip", "cutout", "precision", "tf32",
)  # fmt: skip


def recorded(options: Namespace, world_size: int) -> dict[str, Any]:
    """Return the options that a checkpoint records."""
    values = {name: getattr(options, name) for name in (*FIXED, *APPLIED) if hasattr(options, name)}
    return values | {"batch_size": global_batch_size(options, world_size)}


def check_options(before: dict[str, Any], options: Namespace, ranks: "Ranks") -> None:
    """Refuse options that a continued run cannot change, and report the changed ones that it applies."""
    now = recorded(options, ranks.world_size)
    for flag, then, value in differences(before, now, FIXED)[:1]:
        ranks.agree(f"the checkpoint was made with {flag} {then}, not {value}. Use another --run-dir.")
    for flag, then, value in differences(before, now, APPLIED) if ranks.rank == 0 else []:
        ranks.say(f"continuing with {flag} {value} instead of {then}")


def differences(
    before: dict[str, Any], now: dict[str, Any], names: tuple[str, ...]
) -> list[tuple[str, Any, Any]]:
    """Return (flag, value before, value now) of the named options that have changed."""
    changed = [name for name in names if name in before and name in now and before[name] != now[name]]
    return [(f"--{name.replace('_', '-')}", before[name], now[name]) for name in changed]
