"""Draw the guide's pictures: `python docs/guide/figures/drawings.py`. A test compares the files.

Each has a light background of its own, so that it is readable on light and dark pages.
"""

from pathlib import Path
from xml.sax.saxutils import escape

HERE = Path(__file__).parent
BLUE, GREEN, ORANGE, GREY, WHITE = "#dbe8f8", "#dcf1dd", "#fbe6cc", "#eceff3", "#ffffff"
INK, LINE = "#1c2733", "#5b6b7d"


def text(x: int, y: int, words: str, size: int = 14, weight: str = "normal") -> str:
    """Centred text."""
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" text-anchor="middle" '
        f'fill="{INK}">{escape(words)}</text>'
    )


def box(x: int, y: int, width: int, height: int, fill: str, *lines: str) -> str:
    """A rectangle with centred lines of text."""
    first = y + height // 2 + 5 - 9 * (len(lines) - 1)
    words = [text(x + width // 2, first + 18 * row, line) for row, line in enumerate(lines)]
    shape = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}" stroke="{LINE}"/>'
    return "\n".join([shape, *words])


def arrow(x: int, y: int, x2: int, y2: int) -> str:
    """A line with a head at its end."""
    return (
        f'<line x1="{x}" y1="{y}" x2="{x2}" y2="{y2}" stroke="{LINE}" stroke-width="1.5" '
        'marker-end="url(#head)"/>'
    )


def picture(width: int, height: int, title: str, *parts: str) -> str:
    """A complete SVG file."""
    head = (
        '<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        f'orient="auto-start-reverse"><path d="M0,0 L10,5 L0,10 z" fill="{LINE}"/></marker>'
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            'font-family="system-ui, Helvetica, Arial, sans-serif">',
            f"<title>{escape(title)}</title>",
            f"<defs>{head}</defs>",
            f'<rect width="{width}" height="{height}" rx="10" fill="{WHITE}"/>',
            *parts,
            "</svg>\n",
        ]
    )


def data_parallelism() -> str:
    """One step of training on two ranks."""
    parts = [box(160, 20, 440, 36, GREY, "batch of 64 samples")]
    for x, name, share in (
        (70, "rank 0, GPU 0", "samples 0, 2, 4, ..."),
        (430, "rank 1, GPU 1", "samples 1, 3, 5, ..."),
    ):
        middle = x + 130
        parts += [
            text(middle, 96, name, 15, "bold"),
            arrow(380 + (middle - 380) // 2, 56, middle, 80),
            box(x, 108, 260, 36, GREY, share),
            arrow(middle, 144, middle, 162),
            box(x, 162, 260, 36, BLUE, "forward and backward"),
            arrow(middle, 198, middle, 216),
            box(x, 216, 260, 36, ORANGE, "its own gradients"),
            arrow(middle, 252, middle, 274),
            arrow(middle, 318, middle, 340),
            box(x, 340, 260, 36, BLUE, "optimizer step"),
            arrow(middle, 376, middle, 394),
            box(x, 394, 260, 36, GREEN, "the same weights on both ranks"),
        ]
    parts.append(box(70, 274, 620, 44, ORANGE, "all-reduce: every rank gets the mean of all gradients"))
    return picture(760, 450, "One step of data parallelism on two ranks", *parts)


def ranks() -> str:
    """Two nodes with four GPUs each."""
    parts = [text(440, 34, "world size 8 = 2 nodes x 4 ranks", 16, "bold")]
    for node in range(2):
        x = 20 + 430 * node
        parts += [
            f'<rect x="{x}" y="54" width="410" height="176" rx="8" fill="{GREY}" stroke="{LINE}"/>',
            text(x + 205, 80, f"node {node}: node rank {node}", 15, "bold"),
        ]
        for gpu in range(4):
            left = x + 12 + 98 * gpu
            fill = GREEN if node == gpu == 0 else BLUE
            parts.append(
                box(left, 96, 92, 116, fill, f"rank {4 * node + gpu}", f"local rank {gpu}", f"cuda:{gpu}")
            )
    parts.append(text(440, 256, "Rank 0 prints and saves. MASTER_ADDR is the name of node 0.", 14))
    return picture(880, 276, "Rank, local rank and node rank on two nodes with four GPUs each", *parts)


PICTURES = {"data-parallelism.svg": data_parallelism, "ranks.svg": ranks}


if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (HERE / name).write_text(draw())
