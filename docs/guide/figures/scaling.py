"""Draws scaling.svg from scaling.jsonl, the output of three rounds of examples/guide/scaling.py."""

import json
from pathlib import Path
from statistics import median

from chart import Line, Panel, figure

HERE = Path(__file__).parent
RANKS = (1, 2, 4)


def samples_per_second(kind: str) -> list[float]:
    """The median of the rounds for 1, 2 and 4 ranks."""
    runs = [json.loads(line) for line in (HERE / "scaling.jsonl").read_text().splitlines()]
    return [
        median(run["samples_per_second"] for run in runs if (run["kind"], run["ranks"]) == (kind, ranks))
        for ranks in RANKS
    ]


def speed_ups(kind: str) -> list[tuple[float, float]]:
    """The speed-up over one rank by the number of ranks."""
    rates = samples_per_second(kind)
    return [(ranks, rate / rates[0]) for ranks, rate in zip(RANKS, rates, strict=True)]


def svg() -> str:
    """Speed-up and efficiency by ranks."""
    ideal = [(ranks, ranks) for ranks in RANKS]
    curves = {"weak scaling": speed_ups("weak"), "strong scaling": speed_ups("strong")}
    gains = [Line(label, points) for label, points in curves.items()]
    shares = [Line(label, [(n, 100 * gain / n) for n, gain in points]) for label, points in curves.items()]
    full = [(ranks, 100) for ranks in RANKS]
    return figure(
        [
            Panel("2 CPU cores: speed-up", "ranks", "", [*gains, Line("ideal", ideal, True)], list(RANKS)),
            Panel("2 CPU cores: efficiency", "ranks", "%", [*shares, Line("ideal", full, True)], list(RANKS)),
        ]
    )


if __name__ == "__main__":
    (HERE / "scaling.svg").write_text(svg())
