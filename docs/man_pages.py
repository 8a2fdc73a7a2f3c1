"""Write the man pages, one per command, from the same texts as `--help`: python docs/man_pages.py FOLDER."""

import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from inspect import cleandoc
from pathlib import Path

import click
from click_man.man import ManPage

from slurmgen.cli import cli
from slurmgen.cli.output import example_lines, grouped


def main(folder: Path) -> None:
    """Write slurmgen.1, slurmgen-render.1 and so on."""
    folder.mkdir(parents=True, exist_ok=True)
    for ctx in contexts(cli, None, "slurmgen"):
        (folder / f"{_page_name(ctx)}.1").write_text(man_page(ctx), encoding="utf-8")


def contexts(command: click.Command, parent: click.Context | None, name: str) -> Iterator[click.Context]:
    """The context of a command and of all commands below it."""
    ctx = click.Context(command, parent, name, **command.context_settings)
    yield ctx
    for child, subcommand in _subcommands(ctx):
        yield from contexts(subcommand, ctx, child)


def man_page(ctx: click.Context) -> str:
    """One man page in roff."""
    name = _page_name(ctx)
    page = ManPage(name)
    page.version = f"slurmgen {version('slurmgen-torch')}"
    page.short_help = _roff(_short_help(ctx.command))
    page.synopsis = " ".join(ctx.command.collect_usage_pieces(ctx))
    page.description = _roff(cleandoc(ctx.command.help or ""))
    page.options = [
        (names, _roff(text)) for rows in grouped(ctx.command, ctx).values() for names, text in rows
    ]
    page.commands = [(name, _roff(_short_help(command))) for name, command in _subcommands(ctx)]
    text = str(page).replace(f".B {name}\n", f".B {ctx.command_path}\n", 1)
    text = text.replace(f'"{name} Manual"', '"slurmgen manual"', 1)
    return text + "\n".join([*_examples(ctx.command), *_see_also(ctx), ""])


def _subcommands(ctx: click.Context) -> list[tuple[str, click.Command]]:
    if not isinstance(ctx.command, click.Group):
        return []
    names = ctx.command.list_commands(ctx)
    return [(name, command) for name in names if (command := ctx.command.get_command(ctx, name))]


def _short_help(command: click.Command) -> str:
    return command.get_short_help_str(200).rstrip(".")


def _page_name(ctx: click.Context) -> str:
    return ctx.command_path.replace(" ", "-")


def _examples(command: click.Command) -> list[str]:
    examples = getattr(command, "examples", {})
    return [".SH EXAMPLES", ".nf", *map(_roff, example_lines(examples)), ".fi"] if examples else []


def _see_also(ctx: click.Context) -> list[str]:
    return [".SH SEE ALSO", rf".BR {_page_name(ctx.parent)} (1)".replace("-", r"\-")] if ctx.parent else []


def _roff(text: str) -> str:
    """Plain text as roff: words in backquotes are bold, and no line begins with a control character."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    text = re.sub(r"`([^`\n]+)`", r"\\fB\1\\fP", text)
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.MULTILINE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
