"""`slurmgen submit`: send the project, submit the job, print its id."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from slurmgen.cli.after_option import after_option
from slurmgen.cli.completion import complete_sites
from slurmgen.cli.job_command import JobCommand
from slurmgen.cli.options import request_options
from slurmgen.cli.paths import cache_dir
from slurmgen.cli.route_options import connect_in_background, json_option, route_of, route_options
from slurmgen.cli.sending_options import Sending, sending_options
from slurmgen.cli.submit_all import check_all, load_all, submit_all
from slurmgen.cli.submit_file import FileJob, find_file_job
from slurmgen.cli.submit_job import check_follow, prepared_job, submit_arrays, with_command
from slurmgen.cli.submit_job import test_only as check_only
from slurmgen.cli.submit_output import notes_of, show, warn
from slurmgen.errors import UnknownJob
from slurmgen.job_options import JobOptions
from slurmgen.job_spec import JobSpec, load_spec
from slurmgen.slurm.log_pattern import is_of_task

if TYPE_CHECKING:
    from slurmgen.jobs.prepare import Prepared
    from slurmgen.remote.route import Route
    from slurmgen.slurm.dependencies import After

Made = tuple["Prepared", tuple[str, ...]]
"A submission, and what to know about it."


class Choices(Struct, frozen=True, kw_only=True):
    """What the user chose, besides the job and the site."""

    sending: Sending
    after: tuple[str, ...]
    again: bool
    no_lint: bool
    test_only: bool
    dry_run: bool
    follow: bool
    as_json: bool


@click.command(
    "submit",
    cls=JobCommand,
    examples={
        "slurmgen submit train --dry-run": "Show the script and what would be sent",
        "slurmgen submit train --follow": "Submit the job train of slurmgen.toml and show its log",
        "slurmgen submit --script train.py --gpus 2 -- --epochs 20": "Submit your own script, with arguments",
        "slurmgen submit slurm/train.sbatch --site daic": "Submit a batch script of your own as it is",
    },
)
@request_options
@route_options
@sending_options()
@click.option(
    "--all",
    "several",
    is_flag=True,
    help="Submit all jobs of slurmgen.toml as one group; with JOB, that one and those it depends on.",
)
@after_option()
@click.option(
    "--again", is_flag=True, help="Submit a new job even if the outcome of an earlier submission is unknown."
)
@click.option("--no-lint", is_flag=True, help="Submit a batch script even if the linter finds an error.")
@click.option(
    "--first",
    multiple=True,
    metavar="SITE",
    shell_complete=complete_sites,
    help="Instead of --site: submit to all of these sites, and keep the job that starts first; repeatable.",
)
@click.option("--test-only", is_flag=True, help="Check whether Slurm would accept the job; submit nothing.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the script and what would be sent, without connecting; with --first, the sites are asked.",
)
@click.option(
    "--follow", is_flag=True, help="Show the log until the job ends; exit 0 if it COMPLETED, else 1."
)
@json_option
def command(
    options: JobOptions,
    several: bool,
    first: tuple[str, ...],
    test_only: bool,
    dry_run: bool,
    follow: bool,
    as_json: bool,
    **values: Any,
) -> None:
    """Send the project to the site and submit the job.

    JOB is a job of slurmgen.toml; default: its only job. With --script and no JOB, the job is made from
    [defaults]. Without jobs in slurmgen.toml, the bundled example is submitted.

    With several --first, a job waits at each of these sites. The first one that starts runs the program,
    and the others are cancelled. The command waits for that start; a repeated one continues.

    JOB can also be the path of a batch script, which is submitted as it is unless the linter finds an error.
    Options such as --time override its header.

    The job id is printed to stdout, everything else to stderr. After a failure, repeat the command: it
    finds the job, or submits it if there is none. Only a controller that takes the job very late, or has
    forgotten it, can get a second one.
    """
    if test_only + dry_run + follow > 1:
        raise click.UsageError("--test-only, --dry-run and --follow exclude each other.")
    own = {key: values.pop(key) for key in ("sending", "after", "again", "no_lint")}
    choices = Choices(**own, test_only=test_only, dry_run=dry_run, follow=follow, as_json=as_json)
    if several:
        _submit_all(options, choices, values, first)
    elif first:
        _submit_first(options, choices, values, first)
    else:
        _submit_one(options, choices, values)


def _submit_all(
    options: JobOptions, choices: Choices, route_values: dict[str, Any], first: tuple[str, ...]
) -> None:
    """Submit the jobs of slurmgen.toml as one group."""
    dry_run, as_json = choices.dry_run, choices.as_json
    others = {"--after": choices.after, "--test-only": choices.test_only, "--follow": choices.follow}
    check_all(options, others | {"--first": first, "--dry-run --json": dry_run and as_json})
    specs, sending = load_all(options), choices.sending
    route = route_of(specs[0], route_values, connects=not dry_run)
    with connect_in_background(route, starts=not dry_run) as connecting:
        specs = [sending.on_good_nodes(one, route.via) for one in specs]
        made = partial(_of_job, route=route, choices=choices)
        submit_all(connecting, specs, made, again=choices.again, dry_run=dry_run, as_json=as_json)


def _submit_one(options: JobOptions, choices: Choices, route_values: dict[str, Any]) -> None:
    """Submit one job, or show or check what would be submitted."""
    job = find_file_job(options) or _load(options)
    route = route_of(job, route_values, connects=not choices.dry_run)
    # The login proceeds while the plan and the project are read.
    with connect_in_background(route, starts=not choices.dry_run) as connecting:
        if isinstance(job, FileJob):
            prepared, notes = _of_file(job, route, choices)
        else:
            job = choices.sending.on_good_nodes(job, route.via)
            prepared, notes = _of_job(job, route, choices)
            prepared = _dependent(prepared, job.after(choices.after), choices)
        if choices.test_only:
            check_only(connecting, prepared, choices.as_json)
        elif choices.dry_run:
            warn(prepared, notes)
            show(prepared, choices.as_json)
        else:
            again, follow, as_json = choices.again, choices.follow, choices.as_json
            submit_arrays(connecting, _arrays(job, prepared), notes, again, follow, as_json)


def _submit_first(
    options: JobOptions, choices: Choices, route_values: dict[str, Any], sites: tuple[str, ...]
) -> None:
    """Submit the job to several sites, of which one runs it."""
    from slurmgen.cli.submit_first import submit_first

    for option, is_given in {"--after": choices.after, "--test-only": choices.test_only}.items():
        if is_given:
            raise click.UsageError(f"{option} and --first exclude each other.")
    submit_first(
        options,
        tuple(dict.fromkeys(sites)),
        route_values,
        choices.sending,
        again=choices.again,
        dry_run=choices.dry_run,
        follow=choices.follow,
        as_json=choices.as_json,
    )


def _of_file(job: FileJob, route: "Route", choices: Choices) -> Made:
    """The submission of a batch script as it is."""
    script = job.read(lint=not choices.no_lint)
    check_follow(choices.follow, is_array=script.is_array)
    prepared = with_command(job.prepare(script, route, choices.sending))
    return _dependent(prepared, job.after(script, choices.after), choices), ()


def _of_job(job: JobSpec, route: "Route", choices: Choices) -> Made:
    """The submission of a job."""
    plan = job.plan()
    check_follow(choices.follow, is_array=is_of_task(plan.output))
    return with_command(prepared_job(job, plan, route, choices.sending)), tuple(notes_of(plan))


def _load(options: JobOptions) -> JobSpec:
    """The job; the error for a submitted one names `slurmgen resubmit`."""
    try:
        return load_spec(options, Path.cwd())
    except UnknownJob as error:
        from slurmgen.jobs.lookup import earlier

        if found := earlier(str(options.job)):
            hint = f"`slurmgen resubmit {found.id}` submits job {found.id} ({found.name}) again."
            raise UnknownJob(error.fact, hint) from None
        raise


def _dependent(prepared: "Prepared", afters: "tuple[After, ...]", choices: Choices) -> "Prepared":
    from slurmgen.jobs.prepare import dependent

    return prepared if choices.test_only else dependent(prepared, afters)


def _arrays(job: JobSpec | FileJob, prepared: "Prepared") -> "list[Prepared]":
    """What is submitted: more than one only for a sweep beyond the site's array size."""
    if isinstance(job, FileJob) or not prepared.record.tasks:
        return [prepared]
    from slurmgen.jobs.sweep_arrays import arrays_of

    return arrays_of(prepared, job.plan(), lambda plan: job.render(plan, cache_dir()))
