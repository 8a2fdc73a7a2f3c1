"""`slurmgen check`: do the checked-in scripts match slurmgen.toml?"""

from collections.abc import Callable, Sequence
from pathlib import Path

import click
from msgspec import to_builtins

from slurmgen.checked_in import Finding, compare, diff, expected, found
from slurmgen.cli.objects import Checked, Mismatch
from slurmgen.cli.options import cache_dir, json_format_option, shown
from slurmgen.cli.output import Command, color_option, style_of, styled_diff, warn
from slurmgen.config.project import FILE_NAME, find_project, require_project, script_folder
from slurmgen.job_spec import check_names
from slurmgen.text import annotation, counted, visible, visible_json

Style = Callable[..., str]
_HINT = (
    "`slurmgen render --all --write` writes missing and outdated scripts, with --force edited ones too. "
    "Delete scripts that no job makes any more."
)


@click.command(
    "check",
    cls=Command,
    examples={
        "slurmgen check": "Check the scripts of the current project",
        "slurmgen check --format github": "Check them in a workflow of GitHub",
    },
)
@click.argument(
    "folder", default=".", type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path)
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json", "github"]),
    default="text",
    show_default=True,
    help="Format of the report; github: annotations in a pull request.",
)
@color_option
@json_format_option
def command(folder: Path, format_: str, color: str, as_json: bool) -> int:
    """Check that the scripts in the project match slurmgen.toml.

    Exits with 1 and shows the difference if a script is missing, outdated or edited by hand, or if no job
    makes it any more. FOLDER is the project or a folder in it; default: the current folder.
    """
    folder, project = find_project(folder)
    require_project(folder)
    check_names(project, folder)
    wanted = expected(folder, project, cache_dir(), warn)
    findings = compare(wanted, found(script_folder(folder, project), wanted))
    click.echo(
        _REPORTS["json" if as_json else format_](findings, len(wanted), style_of(color)), nl=False, color=True
    )
    return int(bool(findings))


def _as_text(findings: Sequence[Finding], scripts: int, style: Style) -> str:
    if not findings:
        return style(f"{_count(scripts, 'match', 'matches')} {FILE_NAME}", fg="green") + "\n"
    blocks = [_block(finding, style) for finding in findings]
    total = _count(len(findings), "do not match", "does not match")
    return "".join([*blocks, f"{style(f'{total} {FILE_NAME}', fg='red')}. {_HINT}\n"])


def _count(scripts: int, plural: str, singular: str) -> str:
    return f"{counted(scripts, 'script')} {singular if scripts == 1 else plural}"


def _block(finding: Finding, style: Style) -> str:
    diff = _visible_diff(finding)
    title = f"{style(_name(finding), bold=True)}: {style(finding.message, fg='red')}"
    return f"{title}\n{styled_diff(diff, style)}\n"


def _as_json(findings: Sequence[Finding], scripts: int, _style: Style) -> str:
    objects = [
        Mismatch(path=shown(finding.path), kind=finding.kind, message=finding.message, diff=_diff(finding))
        for finding in findings
    ]
    return visible_json(Checked(scripts=scripts, findings=objects), indent=2, default=to_builtins)


def _as_github(findings: Sequence[Finding], _scripts: int, _style: Style) -> str:
    return "".join(_annotation(finding) + _visible_diff(finding) for finding in findings)


def _annotation(finding: Finding) -> str:
    message = f"{finding.message}. {_HINT}"
    return annotation("error", message, file=shown(finding.path), title="slurmgen check")


def _diff(finding: Finding) -> str:
    return diff(finding, _name(finding))


def _visible_diff(finding: Finding) -> str:
    return visible(_diff(finding), keep="\n\t")


def _name(finding: Finding) -> str:
    return visible(shown(finding.path))


_REPORTS: dict[str, Callable[[Sequence[Finding], int, Style], str]] = {
    "text": _as_text,
    "json": _as_json,
    "github": _as_github,
}
