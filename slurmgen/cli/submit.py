"""`slurmgen submit`: send the project, submit the job, print its id."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurmgen.cli.bad_nodes_option import bad_nodes_option, without_bad_nodes
from slurmgen.cli.completion import complete_jobs, complete_sites
from slurmgen.cli.options import JobCommand, project_size_option, request_options, send_option
from slurmgen.cli.paths import cache_dir
from slurmgen.cli.route_options import connect_in_background, json_option, route_options
from slurmgen.cli.submit_all import check_all, load_all, submit_all
from slurmgen.cli.submit_file import FileJob, find_file_job
from slurmgen.cli.submit_job import check_follow, prepared_job, submit_arrays, with_command
from slurmgen.cli.submit_job import test_only as check_only
from slurmgen.cli.submit_output import notes_of, show, warn
from slurmgen.errors import UnknownJob
from slurmgen.job_spec import JobOptions, JobSpec, load_spec

if TYPE_CHECKING:
    from slurmgen.jobs.prepare import Prepared
    from slurmgen.remote.route import Route
    from slurmgen.slurm.dependencies import After


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
@click.option(
    "--remote-dir", metavar="FOLDER", help="Folder on the cluster for submissions; default: ~/slurmgen."
)
@project_size_option
@send_option
@bad_nodes_option(default=True)
@click.option(
    "--all",
    "several",
    is_flag=True,
    help="Submit all jobs of slurmgen.toml as one group; with JOB, that one and those it depends on.",
)
@click.option(
    "--after",
    multiple=True,
    metavar="[TYPE:]JOB",
    shell_complete=complete_jobs,
    help="Start when that job has COMPLETED (TYPE ok), failed (notok) or ended (any); repeatable; none for "
    "no job.",
)
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
    remote_dir: str | None,
    max_size: int,
    send: tuple[str, ...],
    exclude_bad_nodes: bool,
    several: bool,
    after: tuple[str, ...],
    again: bool,
    no_lint: bool,
    first: tuple[str, ...],
    test_only: bool,
    dry_run: bool,
    follow: bool,
    as_json: bool,
    **route_values: Any,
) -> None:
    """Send the project to the site and submit the job.

    JOB is a job of slurmgen.toml; default: its only job. With --script and no JOB, the job is made from
    [defaults]. Without jobs in slurmgen.toml, the bundled example is submitted.

    With several --first, a job waits at each of these sites. The first one that starts runs the program,
    and the others are cancelled. The command waits for that start; a repeated one continues.

    JOB can also be the path of a batch script, which is submitted as it is unless the linter finds an error.

    The job id is printed to stdout, everything else to stderr. After a failure, repeat the command: it
    finds the job, or submits it if there is none. It never submits a second one.
    """
    from slurmgen.remote.route import find_route

    if test_only + dry_run + follow > 1:
        raise click.UsageError("--test-only, --dry-run and --follow exclude each other.")
    if several:
        others = {"--after": after, "--test-only": test_only, "--follow": follow, "--first": first}
        check_all(options, others | {"--dry-run --json": dry_run and as_json})
        specs = load_all(options)
        route = find_route(specs[0].site, specs[0].personal, **route_values)
        made = partial(_made, route, remote_dir, max_size, send)
        with connect_in_background(route, starts=not dry_run) as connecting:
            specs = [_on_good_nodes(one, route, exclude_bad_nodes) for one in specs]
            submit_all(connecting, specs, made, again=again, dry_run=dry_run, as_json=as_json)
        return
    if first:
        if after or test_only:
            raise click.UsageError(f"{'--after' if after else '--test-only'} and --first exclude each other.")
        from slurmgen.cli.submit_first import FirstJob, submit_first

        sites = tuple(dict.fromkeys(first))
        racing = FirstJob(options, sites, route_values, remote_dir, max_size, send, exclude_bad_nodes)
        submit_first(racing, again=again, dry_run=dry_run, follow=follow, as_json=as_json)
        return
    job = find_file_job(options) or _load(options)
    route = find_route(job.site, job.personal, **route_values)
    # The login proceeds while the plan and the project are read.
    with connect_in_background(route, starts=not dry_run) as connecting:
        notes: tuple[str, ...] = ()
        if isinstance(job, FileJob):
            script = job.read(lint=not no_lint)
            check_follow(follow, is_array=script.is_array)
            prepared = with_command(job.prepare(script, route, remote_dir, max_size, send))
            afters = job.after(script, after)
        else:
            job = _on_good_nodes(job, route, exclude_bad_nodes)
            prepared, notes = _made(route, remote_dir, max_size, send, job, follow=follow)
            afters = job.after(after)
        prepared = prepared if test_only else _dependent(prepared, afters)
        if test_only:
            check_only(connecting, prepared, as_json)
        elif dry_run:
            warn(prepared, notes)
            show(prepared, as_json)
        else:
            submit_arrays(connecting, _arrays(job, prepared), notes, again, follow, as_json)


def _on_good_nodes(job: JobSpec, route: "Route", exclude_bad_nodes: bool) -> JobSpec:
    return without_bad_nodes(job, twin=route.via == "twin") if exclude_bad_nodes else job


def _made(
    route: "Route",
    remote_dir: str | None,
    max_size: int,
    send: tuple[str, ...],
    job: JobSpec,
    *,
    follow: bool = False,
) -> "tuple[Prepared, tuple[str, ...]]":
    """The submission of a job, and what to know about it."""
    plan = job.plan()
    check_follow(follow, is_array="%a" in plan.output)
    one = prepared_job(job, plan, route, remote_dir, max_size, send)
    return with_command(one), tuple(notes_of(plan))


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


def _dependent(prepared: "Prepared", afters: "tuple[After, ...]") -> "Prepared":
    from slurmgen.jobs.prepare import dependent

    return dependent(prepared, afters)


def _arrays(job: JobSpec | FileJob, prepared: "Prepared") -> "list[Prepared]":
    """What is submitted: more than one only for a sweep beyond the site's array size."""
    if isinstance(job, FileJob) or not prepared.record.tasks:
        return [prepared]
    from slurmgen.jobs.sweep_arrays import arrays_of

    return arrays_of(prepared, job.plan(), lambda plan: job.render(plan, cache_dir()))
