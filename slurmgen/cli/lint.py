"""`slurmgen lint`: find mistakes in batch scripts."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurmgen.cli.color import color_option, style_of, styled_diff, terminal_width
from slurmgen.cli.completion import complete_rules
from slurmgen.cli.help import Command
from slurmgen.cli.paths import write as write_file
from slurmgen.cli.site_option import site_option
from slurmgen.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurmgen.lint.reports import Linted
    from slurmgen.sites.model import Site


@click.command(
    "lint",
    cls=Command,
    examples={
        "slurmgen lint slurm/*.sbatch": "Check batch scripts",
        "slurmgen lint --site daic job.sbatch": "Also check them against the limits of a site",
        "slurmgen lint --diff job.sbatch": "Show what --fix would change",
        "slurmgen lint --explain SG110": "Explain a rule",
    },
)
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@site_option
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json", "sarif", "github", "gitlab", "junit", "checkstyle"]),
    default="text",
    show_default=True,
    help="Format of the report.",
)
@color_option
@click.option(
    "--select",
    multiple=True,
    metavar="CODE",
    shell_complete=complete_rules,
    help="Apply only the rules whose code begins with CODE; repeatable.",
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="CODE",
    shell_complete=complete_rules,
    help="Skip the rules whose code begins with CODE; repeatable.",
)
@click.option("--fix", is_flag=True, help="Fix what can be fixed safely.")
@click.option("--diff", is_flag=True, help="Show the changes of --fix without making them.")
@click.option(
    "--explain",
    metavar="CODE",
    shell_complete=complete_rules,
    help="Print the documentation of the rules whose code begins with CODE.",
)
def command(
    files: tuple[str, ...],
    site: str | None,
    format_: str,
    color: str,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fix: bool,
    diff: bool,
    explain: str | None,
) -> int:
    """Find mistakes in batch scripts.

    FILES can be any batch scripts, not only those of slurmgen; `-` is standard input. Exits with 1 if there
    is a finding. A comment `# slurmgen: ignore=CODE` suppresses a finding on its line, or on the next line if
    it stands alone.
    """
    if explain:
        return _explain(explain)
    if not files:
        raise click.UsageError("Name a file, or - for standard input.")
    if fix and "-" in files:
        raise click.UsageError("--fix needs a file. For standard input, --diff shows the changes.")
    from slurmgen.lint.settings import lint_settings

    codes, place = lint_settings(Path.cwd(), site, select, ignore)
    linted = [_lint(name, place, codes) for name in files]
    if diff or fix:
        changed = [(file, _fixed(file, place, codes)) for file in linted]
        if diff:
            return _show_changes(changed, style_of(color))
        linted = [_write(file, text, place, codes) for file, text in changed]
    from slurmgen.lint.reports import report

    click.echo(report(format_, linted, style=style_of(color), width=terminal_width()), nl=False, color=True)
    return int(any(file.reports for file in linted))


def _lint(name: str, site: "Site | None", codes: tuple[str, ...]) -> "Linted":
    from slurmgen.lint import lint_text
    from slurmgen.lint.reports import Linted

    text = _content(name).decode("utf-8", "surrogateescape")
    return Linted(name, text, lint_text(text, site, _path(name), codes))


def _content(name: str) -> bytes:
    from slurmgen.files import MAX_TEXT, NotPlainFile, read_bytes

    try:
        if name != "-":
            _refuse_link_out(Path(name))
            return read_bytes(Path(name))
        content = sys.stdin.buffer.read(MAX_TEXT + 1)
        if len(content) > MAX_TEXT:
            raise NotPlainFile(f"it is larger than {MAX_TEXT:,} bytes")
    except OSError as error:
        raise RequestError(f"{name} cannot be read: {error.strerror or error}", _LINT_HINT) from error
    return content


def _refuse_link_out(path: Path) -> None:
    """Refuse a link out of the folder: in a cloned repository it could make the report show a private file.

    Raises:
        OutsideFolder: a link leads out of the current folder, or out of the folder of the file.
    """
    from slurmgen.files import OutsideFolder, is_inside

    folder = Path.cwd()
    if not Path(os.path.abspath(path)).is_relative_to(folder):  # noqa: PTH100 (Path.absolute keeps `..`)
        folder = path.parent
    if not is_inside(path, folder):
        raise OutsideFolder(f"a link leads to {os.path.realpath(path)}, out of {folder}")


_LINT_HINT = "Name a regular file that you can read, or - for standard input."


def _fixed(file: "Linted", site: "Site | None", codes: tuple[str, ...]) -> str:
    from slurmgen.lint import fix_all

    return fix_all(file.text, site, _path(file.name), codes)


def _write(file: "Linted", text: str, site: "Site | None", codes: tuple[str, ...]) -> "Linted":
    """Write the changed file, and lint it again."""
    from slurmgen.lint import lint_text

    if text != file.text:
        write_file(Path(file.name), text.encode("utf-8", "surrogateescape"))
    return file._replace(text=text, reports=lint_text(text, site, _path(file.name), codes))


def _show_changes(changed: "list[tuple[Linted, str]]", style: "Callable[..., str]") -> int:
    from difflib import unified_diff

    from slurmgen.text import visible

    for file, text in changed:
        before, after = file.text.splitlines(), text.splitlines()
        for line in unified_diff(before, after, f"a/{file.name}", f"b/{file.name}", lineterm=""):
            click.echo(styled_diff(visible(line), style), color=True)
    return int(any(file.reports for file, _ in changed))


def _path(name: str) -> Path | None:
    return None if name == "-" else Path(name)


def _explain(code: str) -> int:
    from slurmgen.lint import chosen
    from slurmgen.lint.docs import explain
    from slurmgen.lint.rules import all_rules

    for known in chosen([code]):
        click.echo(explain(all_rules()[known]), nl=False)
    return 0
