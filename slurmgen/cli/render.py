"""`slurmgen render`: write the batch script to stdout or to a file."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from slurmgen.cli.options import (
    JobCommand,
    bad_nodes_option,
    cache_dir,
    json_option,
    request_options,
    say_excluded,
    shown,
    write_in_project,
)
from slurmgen.cli.options import write as write_file
from slurmgen.cli.output import print_json, print_script, say, warn
from slurmgen.errors import RequestError
from slurmgen.job_spec import JobOptions, JobSpec, check_names, load_spec
from slurmgen.secret_names import without_secrets
from slurmgen.text import visible

if TYPE_CHECKING:
    from slurmgen.cli.objects import Rendered, RenderedScript

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
def command(
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
    from slurmgen.cli.objects import Rendered, RenderedScript
    from slurmgen.config.project import script_path
    from slurmgen.config.user import FILE_NAME as PERSONAL
    from slurmgen.config.user import account_hint, left_out
    from slurmgen.plan import placement
    from slurmgen.render import signed
    from slurmgen.sync.files import missing_files, missing_preflight

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
    shown = (
        f"line {one.line} of the script shows a secret ({one.text})" for one in without_secrets(text).lines
    )
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
    from slurmgen.checked_in import expected
    from slurmgen.cli.objects import Rendered
    from slurmgen.config.project import find_project, require_project

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
    from slurmgen.checked_in import read

    existing = read(scripts)
    if not force:
        _refuse_edited(existing)
    return [
        _written(path, script, existing, lambda path, script: write_in_project(folder, path, script))
        for path, script in scripts.items()
    ]


def _write_output(path: Path, script: bytes, force: bool) -> "RenderedScript":
    from slurmgen.files import read_bytes
    from slurmgen.toml import unreadable

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
    from slurmgen.cli.objects import RenderedScript

    changed = existing.get(path) != script
    if changed:
        write(path, script)
    click.echo(visible(f"wrote {shown(path)}" if changed else f"{shown(path)} is up to date"), err=True)
    return RenderedScript(path=shown(path), changed=changed, script=script.decode())


def _refuse_edited(existing: Mapping[Path, bytes]) -> None:
    from slurmgen.render import as_written

    edited = [shown(path) for path, data in existing.items() if data and not as_written(data)]
    if edited:
        raise RequestError(
            f"edited by hand, or not written by slurmgen: {', '.join(edited)}",
            "Put what you changed into slurmgen.toml (`slurmgen check` shows it), or overwrite with --force.",
        )
