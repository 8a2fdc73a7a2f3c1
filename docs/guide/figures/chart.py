"""Line charts as SVG, for the measurements beside this file."""

import math
from dataclasses import dataclass
from xml.sax.saxutils import escape

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#666666")
WIDTH, HEIGHT = 380, 320
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 30, 48


@dataclass(frozen=True)
class Line:
    """Points that are connected; the same label has the same colour in each panel of a figure."""

    label: str
    points: list[tuple[float, float]]
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """One chart. The horizontal axis is logarithmic."""

    title: str
    across: str
    up: str
    lines: list[Line]
    ticks: list[float]
    log: bool = False
    "A logarithmic vertical axis."


def figure(panels: list[Panel]) -> str:
    """The panels side by side, and a legend below."""
    labels = list(dict.fromkeys(line.label for panel in panels for line in panel.lines))
    colours = dict(zip(labels, COLOURS, strict=False))
    width, height = WIDTH * len(panels), HEIGHT + 22 * math.ceil(len(labels) / 3)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
    parts = [
        f'{head} font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *(f'<g transform="translate({WIDTH * n})">\n{_draw(p, colours)}\n</g>' for n, p in enumerate(panels)),
        *_legend(panels, colours, width),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _legend(panels: list[Panel], colours: dict[str, str], width: float) -> list[str]:
    dashed = {line.label for panel in panels for line in panel.lines if line.dashed}
    parts = []
    for number, (label, colour) in enumerate(colours.items()):
        x, y = LEFT + (number % 3) * (width - LEFT) / 3, HEIGHT + 8 + number // 3 * 22
        parts += [_path([(x, y), (x + 24, y)], colour, label in dashed), _text(x + 30, y + 4, label, "start")]
    return parts


def _draw(panel: Panel, colours: dict[str, str]) -> str:
    values = [value for line in panel.lines for _, value in line.points]
    rows = _rows(min(values), max(values), panel.log)
    scale = math.log10 if panel.log else float
    low, high = scale(rows[0]), scale(rows[-1])
    first, last = math.log2(panel.ticks[0]), math.log2(panel.ticks[-1])

    def place(point: tuple[float, float]) -> tuple[float, float]:
        across = (math.log2(point[0]) - first) / (last - first)
        up = (scale(point[1]) - low) / (high - low)
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    parts = [_text(WIDTH / 2, 18, panel.title, "middle", bold=True)]
    for value in rows:
        (x, y), (end, _) = place((panel.ticks[0], value)), place((panel.ticks[-1], value))
        parts += [_path([(x, y), (end, y)], "#dddddd", width=1), _text(x - 6, y + 4, f"{value:g}", "end")]
    for tick in panel.ticks:
        x, y = place((tick, rows[0]))
        parts += [_path([(x, y), (x, y + 4)], "#666666", width=1), _text(x, y + 18, f"{tick:g}", "middle")]
    parts += [_text(WIDTH / 2, HEIGHT - 10, panel.across, "middle"), _text(6, 18, panel.up, "start")]
    for line in panel.lines:
        places = [place(point) for point in line.points]
        parts.append(_path(places, colours[line.label], line.dashed))
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colours[line.label]}"/>' for x, y in places
        ]
    return "\n".join(parts)


def _rows(low: float, high: float, log: bool) -> list[float]:
    """The marked values of the vertical axis."""
    if log:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        rows = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
        below = max(row for row in rows if row <= low)
        above = min(row for row in rows if row >= high)
        return [row for row in rows if below <= row <= above]
    step = next(step for step in (0.5, 1, 2, 5, 10, 20) if high / step <= 8)
    return [step * number for number in range(math.ceil(high / step) + 1)]


def _path(points: list[tuple[float, float]], colour: str, dashed: bool = False, width: int = 2) -> str:
    steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    style = ' stroke-dasharray="6 4"' if dashed else ""
    return f'<polyline points="{steps}" fill="none" stroke="{colour}" stroke-width="{width}"{style}/>'


def _text(x: float, y: float, text: str, anchor: str, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}>{escape(text)}</text>'
