"""Every pair of flag values either runs on one rank, or is refused in one line.

A covering array has few rows, each a complete command line, and every allowed pair of values in one of them.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from images import patterns
from options import DDP, FLAGS, FSDP, STRATEGY, TASKS
from training_launch import Ranks

Row = dict[str, object]
Choice = tuple[str, object]  # a flag and its value: None leaves the flag out, False gives --no-FLAG
ON_OFF = (True, False)
OFF_ON = (False, True)
RUN_DIR = "run"
# The first value is the one that most rows have: a fast one, where that differs.
VALUES: dict[str, tuple[object, ...]] = {
    "task": tuple(TASKS),
    "data": (None, "synthetic", "digits"),
    "data_dir": (None,),  # that of the ranks
    "limit": (12, 16),
    "val_samples": (0, 4),
    "workers": (0, 1, "auto"),
    "crop_padding": (None, 0, 3),
    "flip": ON_OFF,
    "cutout": (0, 8, 99),
    "epochs": (1, 2),
    "batch_size": (8, 6),
    "batch_size_per_rank": (None, 4),
    "accumulate": (1, 2),
    "model": ("mlp", "cnn", "resnet18", "wideresnet"),
    "width": (1, 2),
    "optimizer": ("sgd", "adamw"),
    "lr": (None, 0, 0.01),
    "lr_scaling": ("linear", "sqrt", "none"),
    "warmup_epochs": (0, 1.5),
    "weight_decay": (0, 0.1),
    "label_smoothing": (0, 0.1, 1),
    "clip_norm": (None, 1),
    "sync_batchnorm": (False,),
    "target_accuracy": (None, 0),
    "target_epochs": (1, 2),
    "seed": (0, 2**63 - 1),
    "device": ("auto", "cpu"),
    "precision": ("auto", "fp32", "bf16", "fp16"),
    "tf32": ON_OFF,
    "channels_last": (None, True, False),
    "compile": (None, False),  # with a compiler: see below
    "fused": ON_OFF,
    "checkpoint_activations": OFF_ON,
    "bucket_mb": (1, 25),
    "static_graph": ON_OFF,
    "strategy": ("ddp", "fsdp"),
    "replicas": (1,),  # 2 is refused on one rank: see below
    "run_dir": (None, RUN_DIR),
    "save_every": (1, 2),
    "keep": (1, 2),
    "margin": (0, 60),
    "check_every": (1, 10),
    "log_every": (1, 50),
    "tensorboard": OFF_ON,
    "profile": OFF_ON,
    "topology": ON_OFF,
    "start_timeout": (60, 300),
    "step_timeout": (60, 100),
    "crash_rank": (None, 0),
    "crash_step": (1000, 2000),  # never reached
}
DEEP: set[Choice] = {("model", "resnet18"), ("model", "wideresnet")}
REFUSED: dict[Choice, set[Choice]] = {
    ("data", "digits"): {("task", "cifar10"), ("task", "cifar100"), *DEEP},
    ("task", "mnist"): DEEP,
    ("static_graph", True): {("accumulate", 2)},
    ("tensorboard", True): {("run_dir", None)},
}
REFUSED_FSDP: dict[Choice, set[Choice]] = {
    ("strategy", "fsdp"): {("channels_last", True), ("precision", "fp16")},
}
ALONE: list[Choice] = [
    ("sync_batchnorm", True),
    ("device", "cuda"),
    ("crash_rank", 1),
    ("batch_size", 9999),
    ("val_samples", 16),
    ("crop_padding", 99),
    ("seed", 2**63),
    ("lr", "nan"),
    ("label_smoothing", 1.5),
    ("epochs", 0),
    ("model", "vgg"),
]


@dataclass(frozen=True)
class Script:
    """A training script, its flags besides FLAGS, and what it refuses. `only`: the flag whose pairs count."""

    name: str
    more: frozenset[str]
    refused: dict[Choice, set[Choice]]
    only: str | None = None
    without: frozenset[Choice] = frozenset()

    @property
    def values(self) -> dict[str, tuple[object, ...]]:
        """The values of each flag of this script."""
        known = names(FLAGS) | self.more | {"task"}
        return {
            flag: tuple(value for value in values if (flag, value) not in self.without)
            for flag, values in VALUES.items()
            if flag in known
        }

    @property
    def pairs(self) -> set[frozenset[Choice]]:
        """The pairs of values that must run."""
        chosen = [[(flag, value) for value in values] for flag, values in self.values.items()]
        return {
            frozenset(pair)
            for first, second in itertools.combinations(chosen, 2)
            for pair in itertools.product(first, second)
            if not self.refuses(*pair) and (self.only is None or self.only in dict(pair))
        }

    def refuses(self, first: Choice, second: Choice) -> bool:
        """Whether these two values cannot be combined."""
        return second in self.refused.get(first, ()) or first in self.refused.get(second, ())


def names(flags: object) -> frozenset[str]:
    return frozenset(name for entries in flags.values() for name, *_ in entries)


NO_FSDP = frozenset({("strategy", "fsdp")})
SCRIPTS = [
    Script("train_ddp", names(DDP), REFUSED),
    Script("train_fsdp", names(FSDP), REFUSED, "checkpoint_activations",
           frozenset({("channels_last", True), ("replicas", 2)})),
    Script("train_lightning", names(DDP) | names(STRATEGY), REFUSED | REFUSED_FSDP, "strategy"),
    Script("train_accelerate", names(DDP) | names(STRATEGY), REFUSED, "strategy",
           NO_FSDP | {("precision", "fp16")}),
]  # fmt: skip


def covering_array(script: Script) -> Iterator[Row]:
    """Yield rows until each pair is in one: first an uncovered pair, then the values that cover most."""
    left = script.pairs
    while left:
        row: Row = dict(sorted(min(left, key=sorted_text)))
        for flag, values in script.values.items():
            if flag not in row:
                allowed = [value for value in values if fits(script, row, (flag, value))]
                row[flag] = max(allowed, key=lambda value, flag=flag: gain(left, row, (flag, value)))
        left -= covered(row)
        yield row


def sorted_text(pair: frozenset[Choice]) -> str:
    return str(sorted(map(str, pair)))


def fits(script: Script, row: Row, choice: Choice) -> bool:
    return not any(script.refuses(each, choice) for each in row.items())


def gain(left: set[frozenset[Choice]], row: Row, choice: Choice) -> int:
    return sum(frozenset((each, choice)) in left for each in row.items())


def covered(row: Row) -> set[frozenset[Choice]]:
    return {frozenset(pair) for pair in itertools.combinations(row.items(), 2)}


def argv(row: Row, folder: object) -> list[str]:
    """The command line of a row."""
    words = []
    for flag, value in row.items():
        name = flag.replace("_", "-")
        if value is False or value is True:
            words += [f"--{name}" if value else f"--no-{name}"]
        elif value is not None:
            words += [f"--{name}", str(folder if value == RUN_DIR else value)]
    return words


ROWS = [(script, number, row) for script in SCRIPTS for number, row in enumerate(covering_array(script))]
PLAIN: Row = {
    "task": "cifar10",
    "data": "synthetic",
    "model": "cnn",
    "limit": 16,
    "batch_size": 8,
    "epochs": 1,
}
PAIRS_REFUSED = [
    (script, {first: value, **dict([second])})
    for script in SCRIPTS
    for (first, value), seconds in script.refused.items()
    for second in sorted(seconds, key=str)
    if {first, second[0]} <= set(script.values)
]
ALONE_REFUSED = [
    (script, {flag: value})
    for script in SCRIPTS
    for flag, value in [*(ALONE if script.name == "train_ddp" else ()), *sorted(script.without)]
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    """Ranks whose folder has small stand-ins for the data sets that are downloaded."""
    folder = tmp_path_factory.mktemp("pairs") / "data"
    folder.mkdir()
    for name, task in TASKS.items():
        images, labels = patterns(32, task.channels, task.side)
        torch.save(((images[:24], labels[:24]), (images[24:], labels[24:])), folder / f"{name}.pt")
    return Ranks(folder)


def test_every_flag_has_values() -> None:
    assert set(VALUES) == names(FLAGS) | names(DDP) | names(FSDP) | names(STRATEGY) | {"task"}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_the_rows_cover_each_pair_and_no_row_is_refused(script: Script) -> None:
    rows = [row for which, _, row in ROWS if which == script]
    assert script.pairs <= set().union(*map(covered, rows))
    assert not [
        pair for row in rows for pair in itertools.combinations(row.items(), 2) if script.refuses(*pair)
    ]


@pytest.mark.parametrize(
    ("script", "row"),
    [pytest.param(script, row, id=f"{script.name}-{number}") for script, number, row in ROWS],
)
def test_every_allowed_pair_runs(script: Script, row: Row, tiny: Ranks, tmp_path: object) -> None:
    run = tiny.run(script.name, argv(row, tmp_path), [{"CUDA_VISIBLE_DEVICES": ""}])
    assert run.returncodes == [0], run.err
    assert run.done[0] <= 1


@pytest.mark.parametrize(
    ("script", "row"),
    [pytest.param(*each, id=f"{each[0].name} {argv(each[1], '')}") for each in PAIRS_REFUSED + ALONE_REFUSED],
)
def test_every_other_value_and_pair_is_refused_in_one_line(script: Script, row: Row, tiny: Ranks) -> None:
    run = tiny.run(script.name, argv(PLAIN | row, ""), [{"CUDA_VISIBLE_DEVICES": ""}])
    assert run.returncodes == [2]
    assert run.err.startswith("error: ")
    assert run.err.count("\n") == 1


@pytest.mark.parametrize(
    "more", [{"precision": "bf16", "clip_norm": 1}, {"accumulate": 2, "checkpoint_activations": True}]
)
def test_a_compiled_model_runs_with_other_flags(more: Row, tiny: Ranks) -> None:
    run = tiny.run("train_ddp", argv(PLAIN | {"model": "mlp", "compile": True} | more, ""), [{}])
    assert run.returncodes == [0], run.err
