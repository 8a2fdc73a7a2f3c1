"""The commands that find faults: in scripts, in an editor, in logs."""

import os
import re
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import BinaryIO

import click

from slurmgen.cli.objects import LintChange, LintRule
from slurmgen.cli.options import complete_rules, json_format_option, json_option, project_dir, site_option
from slurmgen.cli.options import write as write_file
from slurmgen.cli.output import Command, color_option, print_json, style_of, styled_diff, terminal_width
from slurmgen.config.project import find_project, site_of_script
from slurmgen.errors import RequestError, SlurmgenError
from slurmgen.files import MAX_TEXT, NotPlainFile, OutsideFolder, is_inside, read_bytes
from slurmgen.lint import chosen, fix, lint_text
from slurmgen.lint.engine import Fixed, patch
from slurmgen.lint.reports import Linted, report
from slurmgen.lint.rule_pages import explain
from slurmgen.lint.rules import all_rules
from slurmgen.lint.settings import lint_settings
from slurmgen.sites.model import Site
from slurmgen.sites.profiles import load_site
from slurmgen.status.diagnose import Binary, LogDiagnosis, diagnose
from slurmgen.text import visible


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
@json_format_option
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
@click.option("--notes", is_flag=True, help="Also apply the rules of severity note, which are opt-in.")
@click.option("--fix", is_flag=True, help="Apply the fixes that leave a script that runs unchanged.")
@click.option("--unsafe-fixes", is_flag=True, help="With --fix or --diff: also fixes that change what runs.")
@click.option("--diff", is_flag=True, help="Print the changes of --fix as a patch, without making them.")
@click.option(
    "--explain",
    metavar="CODE",
    shell_complete=complete_rules,
    help="Print the documentation of the rules whose code begins with CODE.",
)
def lint_command(
    files: tuple[str, ...],
    site: str | None,
    format_: str,
    as_json: bool,
    color: str,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    notes: bool,
    fix: bool,
    unsafe_fixes: bool,
    diff: bool,
    explain: str | None,
) -> int:
    """Find mistakes in batch scripts.

    FILES can be any batch scripts, not only those of slurmgen; `-` is standard input. Exits with 1 if there
    is a finding. A comment `# slurmgen: ignore=CODE` suppresses a finding on its line, or on the next line if
    it stands alone.
    """
    if explain:
        return _explain(explain, as_json)
    if not files:
        raise click.UsageError("Name a file, or - for standard input.")
    if fix and "-" in files:
        raise click.UsageError("--fix needs a file. For standard input, --diff shows the changes.")
    if unsafe_fixes and not (fix or diff):
        raise click.UsageError("--unsafe-fixes needs --fix or --diff.")
    codes, named = lint_settings(Path.cwd(), site, select, ignore, notes=notes)
    place = cache(lambda name: named or _site_of(name))
    linted, refused = _lint_all(files, place, codes)
    if diff or fix:
        changed = [(file, _fixed(file, place(file.name), codes, unsafe_fixes)) for file in linted]
        if diff:
            if not unsafe_fixes:
                _hint_at_unsafe_fixes(sum(_count_unsafe(file, place(file.name), codes) for file in linted))
            _print_changes(changed) if as_json else _show_changes(changed, style_of(color))
            return refused or int(any(file.reports for file in linted))
        linted = [_write(file, changes, place(file.name), codes) for file, changes in changed]
    form = "json" if as_json else format_
    click.echo(report(form, linted, style=style_of(color), width=terminal_width()), nl=False, color=True)
    return refused or int(any(file.reports for file in linted))


def _site_of(name: str) -> Site | None:
    """The site that `submit` sends a script to, if its name or slurmgen.toml says."""
    folder, project = find_project(Path.cwd())
    site = site_of_script(Path(name), project, folder)
    return load_site(site, folder) if site else None


def _lint_all(
    names: tuple[str, ...], place: Callable[[str], Site | None], codes: tuple[str, ...]
) -> tuple[list[Linted], int]:
    """The files that can be read, and the exit code of the others; their errors go to stderr.

    Raises:
        SlurmgenError: the only file cannot be read.
    """
    linted, refused = [], 0
    for name in names:
        try:
            linted.append(_lint(name, place(name), codes))
        except SlurmgenError as error:
            if len(names) == 1:
                raise
            click.echo("error: " + visible(str(error)), err=True)
            refused = error.exit_code
    return linted, refused


def _lint(name: str, site: Site | None, codes: tuple[str, ...]) -> Linted:
    text = _content(name).decode("utf-8", "surrogateescape")
    if name.endswith(".py") and not re.search("^#SBATCH", text, re.MULTILINE):
        raise RequestError(
            f"{name} is a Python file without #SBATCH lines, not a batch script",
            "Name the batch script that runs it; the linter finds the training script by itself.",
        )
    return Linted(name, text, lint_text(text, site, _path(name), codes))


def _content(name: str) -> bytes:
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
    folder = Path.cwd()
    if not Path(os.path.abspath(path)).is_relative_to(folder):  # noqa: PTH100 (Path.absolute keeps `..`)
        folder = path.parent
    if not is_inside(path, folder):
        raise OutsideFolder(f"a link leads to {os.path.realpath(path)}, out of {folder}")


_LINT_HINT = "Name a regular file that you can read, or - for standard input."


def _fixed(file: Linted, site: Site | None, codes: tuple[str, ...], unsafe: bool) -> Fixed:
    return fix(file.text, site, _path(file.name), codes, unsafe)


def _count_unsafe(file: Linted, site: Site | None, codes: tuple[str, ...]) -> int:
    if not any(report.finding.edits and not report.finding.safe for report in file.reports):
        return 0
    return sum(not report.finding.safe for report in _fixed(file, site, codes, unsafe=True).applied)


def _hint_at_unsafe_fixes(number: int) -> None:
    if number:
        fixes = "1 more fix changes" if number == 1 else f"{number} more fixes change"
        click.echo(f"{fixes} what runs: add --unsafe-fixes", err=True)


def _write(file: Linted, changes: Fixed, site: Site | None, codes: tuple[str, ...]) -> Linted:
    text = changes.text
    if text != file.text:
        write_file(Path(file.name), text.encode("utf-8", "surrogateescape"))
    for change in changes.applied:
        place = f"{file.name}:{change.start.line}:{change.start.column}"
        click.echo(visible(f"fixed {place}: {change.rule.code} {change.finding.message}"), err=True)
    for left, why in changes.left:
        place = f"{file.name}:{left.start.line}:{left.start.column}"
        click.echo(visible(f"left {place}: {left.rule.code}: {why}"), err=True)
    return file._replace(text=text, reports=lint_text(text, site, _path(file.name), codes))


_HARMLESS = "\t\xa0\u2002\u2003\u2009\u202f\u3000"
"White space that `visible` would escape, although it controls nothing; git would refuse the patch."


def _show_changes(changed: list[tuple[Linted, Fixed]], style: Callable[..., str]) -> None:
    """Print a patch; control characters of the file are escaped, except, in a pipe, line ends."""
    piped = not sys.stdout.isatty()
    for file, changes in changed:
        for line in re.findall(r"[^\n]*\n", patch(file.name, file.text, changes.text)):
            end = "\r\n" if piped and line.endswith("\r\n") else "\n"
            click.echo(
                styled_diff(visible(line.removesuffix(end), _HARMLESS), style) + end, nl=False, color=True
            )


def _print_changes(changed: list[tuple[Linted, Fixed]]) -> None:
    changes = [
        LintChange(file=file.name, findings=len(file.reports), diff=patch(file.name, file.text, fixed.text))
        for file, fixed in changed
    ]
    print_json(changes, indent=2)


def _path(name: str) -> Path | None:
    return None if name == "-" else Path(name)


def _explain(code: str, as_json: bool) -> int:
    codes = [known for known in chosen([code], notes=True) if known.startswith(code.upper())]
    rules = [all_rules()[known] for known in codes]  # not the rule that always runs
    texts = {rule: explain(rule) for rule in rules}
    if as_json:
        objects = [
            LintRule(
                code=one.code, name=one.name, severity=one.severity, summary=one.summary, doc=explain(one)
            )
            for one in rules
        ]
        print_json(objects, indent=2)
    else:
        click.echo("".join(texts.values()), nl=False)
    return 0


_INSTALL = "Install it with: pip install 'slurmgen-torch[lsp]'"


@click.command(
    "lsp",
    cls=Command,
    hidden=True,
    examples={
        "slurmgen lsp": "Started by an editor: lint batch scripts as they are edited",
        "slurmgen lsp --site daic": "Also check them against the limits of a site",
    },
)
@site_option
def lsp_command(site: str | None) -> None:
    """Run the linter as a language server on stdin and stdout.

    An editor starts it and shows the findings of `slurmgen lint` while you edit, with fixes, and with the
    page of a rule where the pointer rests.
    """
    try:
        from slurmgen.lint.language_server import make_server
    except ModuleNotFoundError as error:
        raise RequestError("the package pygls is not installed", _INSTALL) from error
    if site:
        load_site(site, project_dir())  # report a wrong name before the editor connects
    make_server(site).start_io()


@click.command(
    "diagnose",
    cls=Command,
    examples={
        "slurmgen diagnose slurm-4711.out": "Find what broke in the log of any job",
        "slurmgen diagnose logs/rank_*.err": "Read the logs of all ranks together",
        "slurmgen diagnose --json -": "Read a log from stdin, and print the cause and all evidence",
    },
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@json_option
def diagnose_command(files: tuple[str, ...], as_json: bool) -> int:
    """Find the cause of a failure in logs, whatever program wrote them.

    No job and no site is needed. Several logs, such as one for each rank, are read together; - is stdin.
    Exits with 1 if a cause is found, and with 0 if none is seen.
    """
    with ExitStack() as stack:
        streams = {("stdin" if name == "-" else name): _opened(name, stack) for name in dict.fromkeys(files)}
        try:
            found = diagnose(streams)
        except Binary as error:
            raise RequestError(f"{error} is not a text file", "Name the log that the job wrote.") from None
    if as_json:
        print_json(found, indent=2)
    else:
        _print(found)
    return 1 if found.cause else 0


def _opened(name: str, stack: ExitStack) -> BinaryIO:
    if name == "-":
        return sys.stdin.buffer
    if Path(name).is_dir():
        raise RequestError(f"{name} is a folder", f"Name its logs, as in {name.rstrip('/')}/*.out.")
    try:
        return stack.enter_context(Path(name).open("rb"))
    except OSError as error:
        reason = (
            "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        )
        raise RequestError(f"{name} {reason}", "Name the log that the job wrote.") from None


def _print(found: "LogDiagnosis") -> None:
    if cause := found.cause:
        place = ":".join(filter(None, [cause.file, str(cause.number or "")]))
        rows = [("why", cause.what), ("at", place), *(("log", line) for line in cause.line.splitlines())]
        rows += [("do", cause.todo)] if cause.todo else []
    else:
        rows = [("why", "no cause of a failure is seen"), *(("end", line) for line in found.ending)]
    for label, text in rows:
        click.echo(f"{label + ':':5}{visible(text)}")
