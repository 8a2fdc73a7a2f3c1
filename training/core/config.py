"""The flags, the same for every script. Imports no torch, so `--help` and a wrong flag answer at once."""

import argparse
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Task:
    """One thing to learn: the values `--data` can take (the default first) and the defaults that suit it."""

    name: str
    data: tuple[str, ...]
    epochs: int
    batch_size: int
    lr: float


CIFAR = Task("cifar", data=("cifar10", "synthetic"), epochs=10, batch_size=128, lr=1e-3)
MNIST = Task("mnist", data=("mnist", "digits", "synthetic"), epochs=10, batch_size=64, lr=1e-3)


@dataclass(frozen=True)
class Config:
    """What one run was asked to do; `batch_size` counts the samples of one step over all ranks."""

    task: str
    epochs: int
    batch_size: int
    lr: float
    data: str
    data_dir: Path
    limit: int | None
    workers: int
    seed: int
    crash_rank: int | None


def parse_config(task: Task, argv: list[str] | None = None) -> Config:
    """Read the command line (`argv`, or the process's own) for `task`."""
    parser = argparse.ArgumentParser(description=f"Train on {task.data[0]}.", allow_abbrev=False)
    _add_training_flags(parser, task)
    _add_data_flags(parser, task)
    parser.add_argument(
        "--crash-rank",
        type=non_negative_int,
        metavar="R",
        help="for testing your cluster: this rank fails on purpose, in the first epoch",
    )
    return Config(task=task.name, **vars(parser.parse_args(argv)))


def _add_training_flags(parser: argparse.ArgumentParser, task: Task) -> None:
    def add(flag: str, **options: object) -> None:
        options["help"] = f"{options['help']} (default: %(default)s)"
        parser.add_argument(flag, **options)  # type: ignore[arg-type]

    add("--epochs", type=positive_int, default=task.epochs, metavar="N", help="passes over the training set")
    add(
        "--batch-size",
        type=positive_int,
        default=task.batch_size,
        metavar="N",
        help="GLOBAL batch size: samples of one step over all ranks, divided evenly among them, so that "
        "a run on more ranks learns the same; a last batch that is not full is left out",
    )
    add("--lr", type=float, default=task.lr, metavar="X", help="learning rate of AdamW")
    add(
        "--seed",
        type=non_negative_int,
        default=0,
        metavar="N",
        help="fixes the initial weights, the order of the data and its augmentation",
    )


def _add_data_flags(parser: argparse.ArgumentParser, task: Task) -> None:
    made = {"digits": "digits comes with scikit-learn", "synthetic": "synthetic is made on the fly"}
    others = " and ".join(made[choice] for choice in task.data[1:])
    parser.add_argument(
        "--data",
        choices=task.data,
        default=task.data[0],
        help=f"what to train on; {task.data[0]} is downloaded where it is missing, {others} "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=Path("data"),
        metavar="DIR",
        help="where the data are, or are put by one rank while the others wait (default: %(default)s)",
    )
    parser.add_argument(
        "--limit",
        type=positive_int,
        metavar="N",
        help="a quick run: train on the first N samples and test on the first N/5 (default: all)",
    )
    parser.add_argument(
        "--workers",
        type=non_negative_int,
        default=0,
        metavar="N",
        help="processes of each rank that fetch batches, at most one for each CPU it may use; "
        "0 fetches in the rank itself, which is fastest for data that fit in memory (default: %(default)s)",
    )


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
