"""Prints and plots speed-up and efficiency of runs on 1, 2, 4 ... ranks: `python scaling.py RUN...`."""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

SIDE, EDGE = 560, 64  # pixels
Point = tuple[float, float]  # pixels from the left and from the top


@dataclass(frozen=True)
class Speed:
    """Images per second of all ranks of one run."""

    world_size: int
    images_per_second: float


def main() -> None:
    """Print a table and draw the plot; each RUN is a --run-dir."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a --run-dir with metrics.jsonl")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("scaling.png"), help="PNG or SVG (default: scaling.png)"
    )
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
    """Plot the speed-up and the ideal, as SVG or as what Pillow, a dependency of torchvision, can write."""
    canvas = Svg() if path.suffix == ".svg" else Pixels()
    ranks = [speed.world_size for speed in speeds]
    gains = [compared(speed, speeds[0])[0] for speed in speeds]
    most = max(ranks[-1], *gains, 2)
    canvas.line([place(0, most, most), place(0, 0, most), place(most, 0, most)], "black", 2)
    for rank in ranks:
        (across, down), up = place(rank, 0, most), place(0, rank, most)
        canvas.text((across, down + 18), str(rank), "black", "m")
        canvas.text((up[0] - 10, up[1]), str(rank), "black", "r")
    canvas.text((SIDE / 2, SIDE - 20), "ranks", "black", "m")
    canvas.text((EDGE, EDGE / 2), "speed-up; grey: the ideal", "black", "l")
    canvas.line([place(0, 0, most), place(most, most, most)], "grey", 2)
    points = [place(*point, most) for point in zip(ranks, gains, strict=True)]
    canvas.line(points, "royalblue", 3)
    for (across, down), gain in zip(points, gains, strict=True):
        canvas.dot((across, down), "royalblue")
        canvas.text((across + 10, down + 16), f"{gain:.2f}", "royalblue", "l")
    canvas.save(path)


def place(across: float, up: float, most: float) -> Point:
    """Return the pixel of a point; both axes end at `most`."""
    unit = (SIDE - 2 * EDGE) / most
    return EDGE + across * unit, SIDE - EDGE - up * unit


class Pixels:
    """Draws with Pillow."""

    def __init__(self) -> None:
        from PIL import Image, ImageDraw, ImageFont

        self.image = Image.new("RGB", (SIDE, SIDE), "white")
        self.draw = ImageDraw.Draw(self.image)
        self.draw.font = ImageFont.load_default(18)

    def line(self, points: list[Point], colour: str, width: int) -> None:
        """Draw straight lines from point to point."""
        self.draw.line(points, fill=colour, width=width)

    def dot(self, centre: Point, colour: str) -> None:
        """Draw a dot."""
        self.draw.circle(centre, 6, fill=colour)

    def text(self, at: Point, text: str, colour: str, anchor: str) -> None:
        """Write a text whose left end (l), middle (m) or right end (r) is `at`."""
        self.draw.text(at, text, fill=colour, anchor=f"{anchor}m")

    def save(self, path: Path) -> None:
        """Write the picture."""
        self.image.save(path)


class Svg:
    """Draws the same as SVG."""

    def __init__(self) -> None:
        self.parts = ['<rect width="100%" height="100%" fill="white"/>']

    def line(self, points: list[Point], colour: str, width: int) -> None:
        """Draw straight lines from point to point."""
        path = " ".join(f"{across:.1f},{down:.1f}" for across, down in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>')

    def dot(self, centre: Point, colour: str) -> None:
        """Draw a dot."""
        self.parts.append(f'<circle cx="{centre[0]:.1f}" cy="{centre[1]:.1f}" r="6" fill="{colour}"/>')

    def text(self, at: Point, text: str, colour: str, anchor: str) -> None:
        """Write a text whose left end (l), middle (m) or right end (r) is `at`."""
        place = {"l": "start", "m": "middle", "r": "end"}[anchor]
        where = f'x="{at[0]:.1f}" y="{at[1]:.1f}" dy="0.35em" text-anchor="{place}"'
        self.parts.append(f'<text {where} fill="{colour}">{text}</text>')

    def save(self, path: Path) -> None:
        """Write the picture."""
        shape = f'viewBox="0 0 {SIDE} {SIDE}" font-family="sans-serif" font-size="18"'
        frame = f'<svg xmlns="http://www.w3.org/2000/svg" {shape}>'
        path.write_text("\n".join([frame, *self.parts, "</svg>"]) + "\n")


if __name__ == "__main__":
    main()
