"""Prints and plots speed-up and efficiency of runs on 1, 2, 4 ... ranks: `python scaling.py RUN...`."""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

SIDE, EDGE = 560, 64  # pixels


@dataclass(frozen=True)
class Speed:
    """Images per second of all ranks of one run."""

    world_size: int
    images_per_second: float


def main() -> None:
    """Print a table and draw the plot; each RUN is a --run-dir."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a --run-dir with metrics.jsonl")
    parser.add_argument("-o", "--output", type=Path, default=Path("scaling.png"), help="default: scaling.png")
    asked = parser.parse_args()
    speeds = sorted((read(run) for run in asked.runs), key=lambda speed: speed.world_size)
    print("ranks  images/s  speed-up  efficiency")
    for speed in speeds:
        gain, share = compared(speed, speeds[0])
        print(f"{speed.world_size:5}  {speed.images_per_second:8.0f}  {gain:8.2f}  {share:10.0%}")
    plot(speeds, asked.output)
    print(f"wrote {asked.output}")


def read(run: Path) -> Speed:
    """Return the speed of a run, without its first epoch if there are others."""
    path = run / "metrics.jsonl"
    if not path.exists():
        raise SystemExit(f"error: there is no {path}. Train with --run-dir {run} first.")
    epochs = [json.loads(line) for line in path.read_text().splitlines()]
    worlds = {epoch["world_size"] for epoch in epochs}
    if len(worlds) > 1:
        raise SystemExit(f"error: {run} ran on {sorted(worlds)} ranks in turn. Give a run for each number.")
    rates = [epoch["images_per_second"] for epoch in epochs]
    rates = rates[1:] or rates
    return Speed(worlds.pop(), sum(rates) / len(rates))


def compared(speed: Speed, base: Speed) -> tuple[float, float]:
    """Return the speed-up over one rank, and the efficiency.

    The speed of one rank is an equal share of the smallest run.
    """
    gain = speed.images_per_second / (base.images_per_second / base.world_size)
    return gain, gain / speed.world_size


def plot(speeds: list[Speed], path: Path) -> None:
    """Plot the speed-up and the ideal with Pillow, a dependency of torchvision."""
    from PIL import Image, ImageDraw, ImageFont

    ranks = [speed.world_size for speed in speeds]
    gains = [compared(speed, speeds[0])[0] for speed in speeds]
    most = max(ranks[-1], *gains, 2)
    places = [(place(*point, most), point) for point in zip(ranks, gains, strict=True)]
    draw = ImageDraw.Draw(image := Image.new("RGB", (SIDE, SIDE), "white"))
    draw.font = ImageFont.load_default(18)
    draw.line([place(0, most, most), place(0, 0, most), place(most, 0, most)], fill="black", width=2)
    for rank in ranks:
        (across, down), up = place(rank, 0, most), place(0, rank, most)
        draw.text((across, down + 8), str(rank), fill="black", anchor="mt")
        draw.text((up[0] - 10, up[1]), str(rank), fill="black", anchor="rm")
    draw.text((SIDE / 2, SIDE - 12), "ranks", fill="black", anchor="mb")
    draw.text((EDGE, EDGE / 2), "speed-up; grey: the ideal", fill="black", anchor="lm")
    draw.line([place(0, 0, most), place(most, most, most)], fill="grey", width=2)
    draw.line([at for at, _ in places], fill="royalblue", width=3)
    for (across, down), (_, gain) in places:
        draw.ellipse((across - 6, down - 6, across + 6, down + 6), fill="royalblue")
        draw.text((across + 10, down + 6), f"{gain:.2f}", fill="royalblue", anchor="lt")
    image.save(path)


def place(across: float, up: float, most: float) -> tuple[float, float]:
    """Return the pixel of a point; both axes end at `most`."""
    unit = (SIDE - 2 * EDGE) / most
    return EDGE + across * unit, SIDE - EDGE - up * unit


if __name__ == "__main__":
    main()
