"""Colour on a terminal: the option, and the console that prints as it says."""

import os
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

color_option = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colours; auto: on a terminal, unless NO_COLOR is set.",
)


def console(color: str) -> "Console":
    """A console on stdout that takes text as it is, with or without colours."""
    from rich.console import Console

    is_colored = color == "always" or (color == "auto" and _takes_colors())
    return Console(
        color_system="standard" if is_colored else None,
        no_color=False,
        markup=False,
        highlight=False,
        emoji=False,
    )


def _takes_colors() -> bool:
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return bool(sys.stdout and sys.stdout.isatty() and not is_plain)
