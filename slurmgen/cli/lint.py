"""`slurmgen lint`: find the faults of batch scripts."""

import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurmgen.cli.completion import complete_rules
from slurmgen.cli.paths import write as write_file
from slurmgen.cli.site_option import site_option
from slurmgen.errors import RequestError

if TYPE_CHECKING:
    from slurmgen.lint.reports import Linted
    from slurmgen.sites.model import Site


@click.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@site_option
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json", "sarif", "github"]),
    default="text",
    show_default=True,
)
@click.option(
    "--select",
    multiple=True,
    metavar="CODE",
    shell_complete=complete_rules,
    help="Only rules whose code begins so; may repeat.",
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="CODE",
    shell_complete=complete_rules,
    help="No rule whose code begins so; may repeat.",
)
@click.option("--fix", is_flag=True, help="Make the changes that are certain.")
@click.option("--diff", is_flag=True, help="Show those changes instead of making them.")
@click.option(
    "--explain",
    metavar="CODE",
    shell_complete=complete_rules,
    help="Print the page of a rule, or of all that begin so.",
)
def command(
    files: tuple[str, ...],
    site: str | None,
    format_: str,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fix: bool,
    diff: bool,
    explain: str | None,
) -> int:
    """Find the faults of batch scripts.

    Yours or another's; `-` is standard input. Exits with 1 if there is a finding. A comment
    `# slurmgen: ignore=CODE` on a line, or on a line of its own above it, allows it.
    """
    if explain:
        return _explain(explain)
    if not files:
        raise click.UsageError("Name a file, or - for standard input.")
    if fix and "-" in files:
        raise click.UsageError("--fix needs a file; see the changes for standard input with --diff.")
    # Importing fills memory with what stays; looking for garbage in it takes a tenth of a short run.
    gc.disable()
    codes, place = _settings(site, select, ignore)
    linted = [_lint(name, place, codes) for name in files[:1]]
    gc.enable()
    linted += [_lint(name, place, codes) for name in files[1:]]
    if diff or fix:
        changed = [(file, _fixed(file, place, codes)) for file in linted]
        if diff:
            return _show_changes(changed)
        linted = [_write(file, text, place, codes) for file, text in changed]
    from slurmgen.lint.reports import report

    click.echo(report(format_, linted), nl=False)
    return int(any(file.reports for file in linted))


def _settings(
    site: str | None, select: tuple[str, ...], ignore: tuple[str, ...]
) -> "tuple[tuple[str, ...], Site | None]":
    """The rules and the site; what slurmgen.toml says of rules holds where the command says nothing."""
    from slurmgen.lint import chosen

    project_dir = here = Path.cwd()
    if any((folder / "slurmgen.toml").is_file() for folder in (here, *here.parents)):
        from slurmgen.config.project import find_project

        project_dir, project = find_project(here)
        select, ignore = select or project.lint.select, ignore or project.lint.ignore
    place = None
    if site:
        from slurmgen.sites.profiles import load_site

        place = load_site(site, project_dir)
    return chosen(_split(select), _split(ignore)), place


def _split(codes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(code.strip() for text in codes for code in text.split(",") if code.strip())


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
    """Refuse a file that a link in a cloned repository replaces: a report shows lines of it.

    Raises:
        OutsideFolder: a link leads out of the current folder, or out of that of the file.
    """
    from slurmgen.files import OutsideFolder, is_inside

    folder = Path.cwd()
    if not Path(os.path.abspath(path)).is_relative_to(folder):  # noqa: PTH100 (Path.absolute keeps `..`)
        folder = path.parent
    if not is_inside(path, folder):
        raise OutsideFolder(f"a link leads to {os.path.realpath(path)}, out of {folder}")


_LINT_HINT = "Give a regular file that you may read; for a pipe, give `-`."


def _fixed(file: "Linted", site: "Site | None", codes: tuple[str, ...]) -> str:
    from slurmgen.lint import fix_all

    return fix_all(file.text, site, _path(file.name), codes)


def _write(file: "Linted", text: str, site: "Site | None", codes: tuple[str, ...]) -> "Linted":
    """Change the file, and lint what it is now."""
    from slurmgen.lint import lint_text

    if text != file.text:
        write_file(Path(file.name), text.encode("utf-8", "surrogateescape"))
    return file._replace(text=text, reports=lint_text(text, site, _path(file.name), codes))


def _show_changes(changed: "list[tuple[Linted, str]]") -> int:
    from difflib import unified_diff

    from slurmgen.text import visible

    for file, text in changed:
        before, after = file.text.splitlines(), text.splitlines()
        for line in unified_diff(before, after, f"a/{file.name}", f"b/{file.name}", lineterm=""):
            click.echo(visible(line))
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
