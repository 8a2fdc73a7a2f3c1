"""Draws batch-size.svg from batch-size.json, the output of examples/guide/batch_size.py."""

import json
from pathlib import Path

from chart import Line, Panel, figure

HERE = Path(__file__).parent
RULES = {
    "not scaled": ("none", 0.0),
    "square root": ("square root", 0.0),
    "linear": ("linear", 0.0),
    "linear, warm-up": ("linear", 0.2),
}


def svg() -> str:
    """The loss by batch size, rule and optimizer."""
    measured = json.loads((HERE / "batch-size.json").read_text())
    return figure([panel(measured, optimizer) for optimizer in ("SGD", "AdamW")])


def panel(measured: dict[str, list[dict]], optimizer: str) -> Panel:
    """One line for each rule, and one for the best learning rate of the grid."""
    rules = [run for run in measured["rules"] if run["optimizer"] == optimizer]
    grid = [run for run in measured["grid"] if run["optimizer"] == optimizer]
    batches = sorted({run["batch"] for run in grid})
    lines = [
        Line(label, [(run["batch"], run["loss"]) for run in rules if (run["rule"], run["warmup"]) == wanted])
        for label, wanted in RULES.items()
    ]
    best = [(size, min(run["loss"] for run in grid if run["batch"] == size)) for size in batches]
    lines.append(Line("best of the grid", best, dashed=True))
    return Panel(f"{optimizer}, median of 5 seeds", "batch size", "loss", lines, batches, log=True)


if __name__ == "__main__":
    (HERE / "batch-size.svg").write_text(svg())
