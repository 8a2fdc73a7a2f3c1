"""The option --max-size, which limits what is sent or fetched; its value is `max_size` in bytes."""

from collections.abc import Callable
from typing import Any

import click


def max_size_option(default: str, help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:  # noqa: A002
    """Give a command --max-size."""
    return click.option(
        "--max-size", metavar="SIZE", default=default, show_default=True, callback=_bytes, help=help
    )


def _bytes(_ctx: click.Context, _param: click.Parameter, value: str) -> int:
    from slurmgen.slurm.sizes import megabytes

    try:
        return megabytes(value) << 20
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a size, such as 500M or 2G.") from None
