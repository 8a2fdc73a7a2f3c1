"""Colour on a terminal: the option --color, and what respects it."""

import os
import shutil
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from slurmgen.text import unstyled

if TYPE_CHECKING:
    from rich.console import Console

_DIFF_COLORS = {"+": "green", "-": "red", "@": "cyan"}

color_option = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Use colours; auto: on a terminal unless NO_COLOR is set.",
)


def style_of(color: str) -> Callable[..., str]:
    """How text for stdout is styled: by `click.style`, or not at all.

    Args:
        color: the value of --color.
    """
    return click.style if _is_colored(color) else unstyled


def _is_colored(color: str) -> bool:
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return color == "always" or (color == "auto" and _is_terminal() and not is_plain)


def console(color: str) -> "Console":
    """A console on stdout that prints text without interpreting it, with or without colours."""
    from rich.console import Console

    return Console(
        color_system="standard" if _is_colored(color) else None,
        no_color=False,
        markup=False,
        highlight=False,
        emoji=False,
    )


def terminal_width() -> int | None:
    """The columns of the terminal on stdout; None if it is not a terminal."""
    return shutil.get_terminal_size().columns if _is_terminal() else None


def styled_diff(diff: str, style: Callable[..., str]) -> str:
    """A unified diff with added lines in green and removed lines in red."""
    return "\n".join(_styled_line(line, style) for line in diff.split("\n"))


def _styled_line(line: str, style: Callable[..., str]) -> str:
    color = _DIFF_COLORS.get(line[:1])
    return style(line, fg=color) if color else line


def _is_terminal() -> bool:
    return bool(sys.stdout and sys.stdout.isatty())
