"""The commands on the scripts of a project: render, explain and check."""

import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

import click
from click.core import ParameterSource
from msgspec import to_builtins

from slurmgen.checked_in import Finding, compare, diff, expected, found, read
from slurmgen.cli.objects import Checked, Mismatch, Rendered, RenderedScript
from slurmgen.cli.options import (
    JobCommand,
    bad_nodes_option,
    cache_dir,
    json_format_option,
    json_option,
    request_options,
    say_excluded,
    shown,
    write_in_project,
)
from slurmgen.cli.options import write as write_file
from slurmgen.cli.output import (
    Command,
    color_option,
    print_json,
    print_script,
    say,
    style_of,
    styled_diff,
    terminal_width,
    warn,
    wrapped,
)
from slurmgen.config.project import FILE_NAME, find_project, require_project, script_folder, script_path
from slurmgen.config.user import FILE_NAME as PERSONAL
from slurmgen.config.user import account_hint, left_out
from slurmgen.errors import RequestError
from slurmgen.files import read_bytes
from slurmgen.job_spec import JobOptions, JobSpec, check_names, load_spec
from slurmgen.plan import as_dict, placement
from slurmgen.render import as_written, signed
from slurmgen.secret_names import without_secrets
from slurmgen.sync.files import missing_files, missing_preflight
from slurmgen.text import annotation, counted, visible, visible_json
from slurmgen.toml import unreadable

_WITH_ALL = {"all_jobs", "write", "force", "as_json"}


@click.command(
    "render",
    cls=JobCommand,
    examples={
        "slurmgen render --site daic --account ewi-insy-prb --gpus 2": "Print a script for 2 GPUs",
        "slurmgen render train.py -- --epochs 20": "Run your own script, with arguments",
        "slurmgen render --all --write": "Write the scripts of all jobs in slurmgen.toml",
    },
)
@request_options
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write the script to this file."
)
@click.option(
    "--write", is_flag=True, help="Write the script to the script folder of the project, as NAME.SITE.sbatch."
)
@click.option(
    "--all",
    "all_jobs",
    is_flag=True,
    help="With --write: write the scripts of all jobs, for each of their sites.",
)
@bad_nodes_option(default=False)
@click.option("--force", is_flag=True, help="Overwrite a script that was edited by hand.")
@json_option
@click.pass_context
def render_command(
    ctx: click.Context,
    options: JobOptions,
    output: Path | None,
    write: bool,
    all_jobs: bool,
    exclude_bad_nodes: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Write the batch script of a job to stdout or to a file.

    JOB is a job of slurmgen.toml; default: its only job, or the bundled example if there is no slurmgen.toml.

    A script in a file does not depend on your personal settings, so that it can be checked in. It ends
    with a hash of itself, and is not overwritten if it was edited by hand.
    """
    if output and write:
        raise click.UsageError("--output and --write exclude each other.")
    if exclude_bad_nodes and (output or write):
        raise click.UsageError(
            "--exclude-bad-nodes is for a script on stdout: one in a file does not depend on this machine."
        )
    if all_jobs:
        _refuse_more_than_all(ctx, write)
        rendered = _write_all(force)
    else:
        job = load_spec(options, Path.cwd(), personal=not (output or write))
        if exclude_bad_nodes:
            from slurmgen.ledger.bad_nodes import Place
            from slurmgen.status.nodes import on_good_nodes

            job = on_good_nodes(job, Place(job.site.name), say_excluded)
        rendered = _render_one(job, output, write, force)
    if as_json:
        print_json(rendered)
    elif not (output or write):
        print_script(rendered.scripts[0].script)


def _render_one(job: JobSpec, output: Path | None, write: bool, force: bool) -> "Rendered":
    for notice in job.notices:
        say(notice)
    in_file = bool(output or write)
    try:
        plan = job.plan()
    except RequestError as error:
        raise error.but(after=account_hint(error, job.request, job.site) if in_file else "") from None
    text = job.render(plan, cache_dir())
    preflight = missing_preflight(plan, job.project_dir) if write else []
    warnings = [*placement.warnings(plan).values(), *missing_files(plan, job.project_dir), *preflight]
    warnings += job.warnings(plan)
    shown = (f"line {one.line} of the script shows a secret ({one.text})" for one in without_secrets(text)[2])
    warnings += [f"{fact}; name its variable in `secrets`, see docs/secrets.md" for fact in shown]
    warnings += [
        f"{key} of {PERSONAL} is not used for a script in a file; write it into slurmgen.toml"
        for key in (left_out(job.request, job.site) if in_file else ())
    ]
    for warning in warnings:
        warn(warning)
    if write:
        path = job.project_dir / script_path(job.project, job.name or plan.name, plan.site)
        scripts = _write_scripts(job.project_dir, {path: signed(text)}, force)
    elif output:
        scripts = [_write_output(output, signed(text), force)]
    else:
        scripts = [RenderedScript(path=None, changed=False, script=text)]
    return Rendered(scripts=scripts, warnings=warnings)


def _refuse_more_than_all(ctx: click.Context, write: bool) -> None:
    given = [name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if not write:
        raise click.UsageError("--all needs --write.")
    if not _WITH_ALL.issuperset(given) or JobCommand.script_args(ctx):
        raise click.UsageError("--all takes no JOB and no other options: slurmgen.toml defines each job.")


def _write_all(force: bool) -> "Rendered":
    folder, project = find_project(Path.cwd())
    require_project(folder)
    check_names(project, folder)
    warnings: list[str] = []

    def note(text: str) -> None:
        warnings.append(text)
        warn(text)

    scripts = _write_scripts(folder, expected(folder, project, cache_dir(), note), force)
    return Rendered(scripts=scripts, warnings=warnings)


def _write_scripts(folder: Path, scripts: Mapping[Path, bytes], force: bool) -> "list[RenderedScript]":
    existing = read(scripts)
    if not force:
        _refuse_edited(existing)
    return [
        _written(path, script, existing, lambda path, script: write_in_project(folder, path, script))
        for path, script in scripts.items()
    ]


def _write_output(path: Path, script: bytes, force: bool) -> "RenderedScript":
    try:
        existing = {path: read_bytes(path)} if path.is_file() else {}
    except OSError as error:
        raise unreadable(path, error) from error
    if not force:
        _refuse_edited(existing)
    return _written(path, script, existing, write_file)


def _written(
    path: Path, script: bytes, existing: Mapping[Path, bytes], write: Callable[[Path, bytes], None]
) -> "RenderedScript":
    changed = existing.get(path) != script
    if changed:
        write(path, script)
    click.echo(visible(f"wrote {shown(path)}" if changed else f"{shown(path)} is up to date"), err=True)
    return RenderedScript(path=shown(path), changed=changed, script=script.decode())


def _refuse_edited(existing: Mapping[Path, bytes]) -> None:
    edited = [shown(path) for path, data in existing.items() if data and not as_written(data)]
    if edited:
        raise RequestError(
            f"edited by hand, or not written by slurmgen: {', '.join(edited)}",
            "Put what you changed into slurmgen.toml (`slurmgen check` shows it), or overwrite with --force.",
        )


Row = tuple[str, str, str]
"The name of a value, the value, and its reason."


@click.command(
    "explain",
    cls=JobCommand,
    examples={
        "slurmgen explain train": "Show the plan of the job train in slurmgen.toml",
        "slurmgen explain --site olivia --account nn1234k --gpus 8": "Show what 8 GPUs mean at another site",
        "slurmgen explain train --json": "Read the plan in a program",
    },
)
@request_options
@json_option
def explain_command(options: JobOptions, as_json: bool) -> None:
    """Show every value of the plan and the reason for it."""
    spec = load_spec(options, Path.cwd())
    plan = spec.plan()
    for notice in spec.notices:
        say(notice)
    for text in spec.warnings(plan):
        warn(text)
    values = as_dict(plan)
    values["depends_on"] = [one.text for one in spec.after()]
    values["reasons"] |= {"depends_on": FILE_NAME} if spec.after() else {}  # type: ignore[operator]
    if as_json:
        click.echo(visible_json(values, indent=2), nl=False)
    else:
        _print_table(values)


def _print_table(values: dict[str, object]) -> None:
    reasons = values.pop("reasons")
    cited = values.pop("cited")
    del values["sources"]
    assert isinstance(reasons, dict)  # noqa: S101
    assert isinstance(cited, dict)  # noqa: S101
    rows = [
        (visible(key), visible(value, keep="\n"), visible(reasons.get(key, "")))
        for key, value in _rows(values)
    ]
    _print_on_terminal(rows) if sys.stdout.isatty() else _print_plain(rows)
    for name, source in cited.items():
        for line in wrapped(visible(f"[{name}] {source}"), terminal_width() or _WIDTH):
            click.echo(line)


def _print_on_terminal(rows: list[Row]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("what", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("why", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    with Console() as console:
        console.print(table)


def _print_plain(rows: list[Row]) -> None:
    """Print rows of 80 columns. The reason of a long value stands below it; no word is divided."""
    first = min(_LONGEST, max(len(key) for key, _, _ in rows))
    second = min(_LONGEST, max(len(value) for _, value, _ in rows))
    rest = _WIDTH - first - second - 4
    for key, value, why in [("what", "value", "why"), *rows]:
        values = [part for line in value.split("\n") for part in wrapped(line, _WIDTH - first - 2)]
        reasons = wrapped(why, rest)
        if max(map(len, values)) > second:
            reasons = [*[""] * len(values), *reasons]
        lines = [*zip_longest(values, reasons, fillvalue="")]
        if len(key) > first:
            lines = [("", ""), *lines]
        for number, (part, reason) in enumerate(lines):
            click.echo(f"{'' if number else key:{first}}  {part:{second}}  {reason}".rstrip())


_WIDTH = 80
"Columns of a table, if stdout is not a terminal."
_LONGEST = 20
"Characters of a name or a value that count for the width of its column there."


_SHOWN = frozenset(
    "job-name account partition qos time nodes ntasks-per-node cpus-per-task gres gpus gpus-per-node "
    "mem mem-per-gpu mem-per-cpu output".split()
)
"Directives whose values have rows of their own."
_OMITTED = frozenset(["script"])
"Values that another row contains."
_OMITTED_IF_UNSET = frozenset(["on_bad_node", "requeue_signal", "sweep"])


def _rows(values: dict[str, object]) -> list[tuple[str, str]]:
    """A row for each value, one for each entry of a dict, and none for what is unset."""
    rows = []
    for key, value in values.items():
        if key == "directives" and isinstance(value, dict):
            rows += [(f"directives.{name}", str(text)) for name, text in value.items() if name not in _SHOWN]
        elif isinstance(value, dict):
            rows += [(f"{key}.{name}", str(text)) for name, text in value.items()]
        elif isinstance(value, list):
            rows.append((key, "\n".join(value)))
        elif key in _OMITTED or (value is None and key in _OMITTED_IF_UNSET):
            continue
        else:
            rows.append((key, "-" if value is None else str(value)))
    return [(key, value) for key, value in rows if value]


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
def check_command(folder: Path, format_: str, color: str, as_json: bool) -> int:
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
    blocks = [
        f"{style(_name(one), bold=True)}: {style(one.message, fg='red')}\n"
        f"{styled_diff(_visible_diff(one), style)}\n"
        for one in findings
    ]
    total = _count(len(findings), "do not match", "does not match")
    return "".join([*blocks, f"{style(f'{total} {FILE_NAME}', fg='red')}. {_HINT}\n"])


def _count(scripts: int, plural: str, singular: str) -> str:
    return f"{counted(scripts, 'script')} {singular if scripts == 1 else plural}"


def _as_json(findings: Sequence[Finding], scripts: int, _style: Style) -> str:
    objects = [
        Mismatch(path=shown(finding.path), kind=finding.kind, message=finding.message, diff=_diff(finding))
        for finding in findings
    ]
    return visible_json(Checked(scripts=scripts, findings=objects), indent=2, default=to_builtins)


def _as_github(findings: Sequence[Finding], _scripts: int, _style: Style) -> str:
    return "".join(
        annotation("error", f"{one.message}. {_HINT}", file=shown(one.path), title="slurmgen check")
        + _visible_diff(one)
        for one in findings
    )


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
