"""`slurmgen check`: are the checked-in scripts what slurmgen.toml says?"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurmgen.cli.job_output import warn
from slurmgen.cli.paths import cache_dir, shown
from slurmgen.config.project import FILE_NAME
from slurmgen.text import annotation, counted, visible, visible_json

if TYPE_CHECKING:
    from slurmgen.checked_in import Finding

_CURE = (
    "`slurmgen render --all --write` writes what is out of date or missing, with --force also over edits; "
    "what has no job any more is yours to delete."
)


@click.command()
@click.argument(
    "folder", default=".", type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path)
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json", "github"]),
    default="text",
    show_default=True,
    help="github: annotations of a pull request.",
)
def command(folder: Path, format_: str) -> int:
    """Check that the checked-in scripts are what slurmgen.toml says.

    Exits with 1, and shows the difference, if a script is out of date, missing or edited by hand, or
    if no job makes it any more. FOLDER is the project's, or one below; this one if unset.
    """
    from slurmgen.checked_in import compare, expected, found
    from slurmgen.config.project import find_project, require_project, script_folder

    folder, project = find_project(folder)
    require_project(folder)
    wanted = expected(folder, project, cache_dir(), warn)
    findings = compare(wanted, found(script_folder(folder, project), wanted))
    click.echo(_REPORTS[format_](findings, len(wanted)), nl=False)
    return int(bool(findings))


def _as_text(findings: "Sequence[Finding]", scripts: int) -> str:
    if not findings:
        return f"{_count(scripts)} as {FILE_NAME} says\n"
    shows = "".join(f"{_name(found)}: {found.message}\n{_visible_diff(found)}\n" for found in findings)
    return f"{shows}{_count(len(findings))} not as {FILE_NAME} says. {_CURE}\n"


def _count(scripts: int) -> str:
    return f"{counted(scripts, 'script')} {'is' if scripts == 1 else 'are'}"


def _as_json(findings: "Sequence[Finding]", scripts: int) -> str:
    found = [
        {"path": shown(found.path), "kind": found.kind, "message": found.message, "diff": _diff(found)}
        for found in findings
    ]
    return visible_json({"scripts": scripts, "findings": found}, indent=2)


def _as_github(findings: "Sequence[Finding]", _scripts: int) -> str:
    return "".join(_annotation(found) + _visible_diff(found) for found in findings)


def _annotation(found: "Finding") -> str:
    return annotation("error", f"{found.message}. {_CURE}", file=shown(found.path), title="slurmgen check")


def _diff(found: "Finding") -> str:
    from slurmgen.checked_in import diff

    return diff(found, _name(found))


def _visible_diff(found: "Finding") -> str:
    return visible(_diff(found), keep="\n\t")


def _name(found: "Finding") -> str:
    return visible(shown(found.path))


_REPORTS: dict[str, "Callable[[Sequence[Finding], int], str]"] = {
    "text": _as_text,
    "json": _as_json,
    "github": _as_github,
}
