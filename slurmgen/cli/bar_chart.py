"""A bar for each of some numbers, as text, SVG or HTML. rich draws all of them."""

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from slurmgen.cli.color import console
from slurmgen.errors import RequestError

if TYPE_CHECKING:
    from rich.table import Table

WIDTH = 40
"Columns of the longest bar."
_COLUMNS = 120
_KINDS = (".svg", ".html", ".txt")
# The drawing loads nothing from the network.
_FONT_OF_THE_NETWORK = re.compile(r"@font-face\s*{[^}]*}\s*")


def bars(title: str, rows: Sequence[tuple[str, float]]) -> "Table":
    """A row for each label with its number and a bar, whose length is the number's from zero."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=True)
    table.add_column("")
    table.add_column(Text(title), justify="right")
    table.add_column("")
    longest = max((abs(number) for _, number in rows), default=0.0) or 1.0
    for label, number in rows:
        length = round(abs(number) / longest * WIDTH)
        style = "red" if number < 0 else "blue"
        table.add_row(Text(label), f"{number:.6g}", Text("█" * length, style=style))
    return table


def printed(table: "Table", color: str) -> None:
    """Print a chart on stdout."""
    console(color).print(table)


def drawn(title: str, rows: Sequence[tuple[str, float]], path: Path) -> str:
    """The content of a file with a chart.

    Raises:
        RequestError: there is no drawing of that kind.
    """
    from rich.console import Console

    if path.suffix not in _KINDS:
        raise RequestError(
            f"--plot {path} is of none of the kinds {', '.join(_KINDS)}", "Choose another name."
        )
    sheet = Console(record=True, file=io.StringIO(), width=_COLUMNS, force_terminal=True, emoji=False)
    sheet.print(bars(title, rows))
    if path.suffix == ".svg":
        return _FONT_OF_THE_NETWORK.sub("", sheet.export_svg(title=title))
    return sheet.export_html() if path.suffix == ".html" else sheet.export_text()
