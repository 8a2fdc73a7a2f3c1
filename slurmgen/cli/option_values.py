"""The values of the options of a job, from the words of the command line.

Each function is the callback of an option, and raises BadParameter if a word is not as the option needs it.
"""

import shlex

import click

from slurmgen.request import OMITTED


def variables(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """`NAME=VALUE` words as a dict."""
    pairs = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE.")
        if not (name.isidentifier() and name.isascii()):
            raise click.BadParameter(f"{name!r} is not a valid variable name.")
        if value == OMITTED:
            raise click.BadParameter(f"{text!r} has no value; a script's header omits it.")
        pairs[name] = value
    return pairs


def command(_ctx: click.Context, _param: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    """The words of a command, which a shell would read in the same way."""
    try:
        words = tuple(shlex.split(text)) if text is not None else None
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a command: {error}.") from None
    if words == ():
        raise click.BadParameter("it is empty.")
    return words


def sbatch(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, str | bool]:
    """`KEY=VALUE` words, or a KEY alone for an option without a value, as a dict."""
    found: dict[str, str | bool] = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not key or (equals and not value):
            raise click.BadParameter(f"{text!r} is neither KEY=VALUE nor KEY.")
        found[key] = value if equals else True
    return found


def sweep(
    _ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """`NAME=V,V` words as a dict."""
    grid: dict[str, tuple[str, ...]] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE,VALUE.")
        if name in grid:
            raise click.BadParameter(f"{name} is there twice.")
        grid[name] = tuple(value.split(","))
    return grid
