"""`slurmgen submit`: send the project, submit the job, print its id."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from slurmgen.cli.bad_nodes_option import bad_nodes_option, without_bad_nodes
from slurmgen.cli.completion import complete_jobs, complete_sites
from slurmgen.cli.job_output import print_json, say
from slurmgen.cli.options import JobCommand, project_size_option, request_options, send_option, typed
from slurmgen.cli.paths import cache_dir
from slurmgen.cli.route_options import connect_in_background, json_option, route_options
from slurmgen.cli.submit_file import FileJob, find_file_job
from slurmgen.cli.submit_output import notes_of, print_id, print_ids, say_result, show, warn
from slurmgen.errors import CommandFailed, RequestError, UnknownJob
from slurmgen.job_spec import JobOptions, JobSpec, load_spec

if TYPE_CHECKING:
    from slurmgen.jobs.prepare import Prepared
    from slurmgen.jobs.submit import Outcome
    from slurmgen.plan import Plan
    from slurmgen.remote.background import BackgroundLogin
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
    help="Instead of --site: submit to the one of these sites that would start the job first; repeatable.",
)
@click.option("--test-only", is_flag=True, help="Check whether Slurm would accept the job; submit nothing.")
@click.option("--dry-run", is_flag=True, help="Print the script and what would be sent, without connecting.")
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

    With several --first, the site is chosen once, by Slurm's estimates as in `slurmgen where`; a repeated
    command continues at that site.

    JOB can also be the path of a batch script, which is submitted as it is unless the linter finds an error.

    The job id is printed to stdout, everything else to stderr. After a failure, repeat the command: it
    finds the job, or submits it if there is none. It never submits a second one.
    """
    from slurmgen.remote.route import find_route

    if test_only + dry_run + follow > 1:
        raise click.UsageError("--test-only, --dry-run and --follow exclude each other.")
    of_first = ""
    if first:
        from slurmgen.cli.submit_first import choose

        if after:
            raise click.UsageError(
                "--after and --first exclude each other: jobs wait for jobs of their site."
            )
        options, of_first = choose(options, first, route_values, remote_dir, again=again)
    job = find_file_job(options) or _load(options)
    route = find_route(job.site, job.personal, **route_values)
    # The login proceeds while the plan and the project are read.
    with connect_in_background(route, starts=not dry_run) as connecting:
        notes: tuple[str, ...] = ()
        if isinstance(job, FileJob):
            script = job.read(lint=not no_lint)
            check_follow(follow, is_array=script.is_array)
            prepared = job.prepare(script, route, remote_dir, max_size, send)
            afters = job.after(script, after)
        else:
            if exclude_bad_nodes:
                job = without_bad_nodes(job, twin=route.via == "twin")
            plan = job.plan()
            check_follow(follow, is_array="%a" in plan.output)
            prepared, notes = (
                prepared_job(job, plan, route, remote_dir, max_size, send),
                tuple(notes_of(plan)),
            )
            afters = job.after(after)
        prepared = with_command(prepared)
        prepared = prepared if test_only else _dependent(prepared, afters)
        if test_only:
            _test_only(connecting, prepared, as_json)
        elif dry_run:
            warn(prepared, notes)
            show(prepared, as_json)
        else:
            _submit(connecting, _arrays(job, prepared), notes, again, follow, as_json, of_first)


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


def check_follow(follow: bool, *, is_array: bool) -> None:
    """Refuse to follow an array.

    Raises:
        RequestError: it is one.
    """
    if follow and is_array:
        raise RequestError(
            "--follow shows one log, and each task of an array has its own",
            "Leave out --follow; `slurmgen logs -f ID_TASK` follows one.",
        )


def with_command(prepared: "Prepared") -> "Prepared":
    """The prepared submission, whose entry keeps the command line of this process."""
    command, directory = typed(click.get_current_context()), str(Path.cwd())
    record = structs.replace(prepared.record, command=command, directory=directory)
    return structs.replace(prepared, record=record)


def _dependent(prepared: "Prepared", afters: "tuple[After, ...]") -> "Prepared":
    from slurmgen.jobs.prepare import dependent

    return dependent(prepared, afters)


def prepared_job(
    job: JobSpec, plan: "Plan", route: "Route", remote_dir: str | None, max_size: int, send: tuple[str, ...]
) -> "Prepared":
    """The submission of a plan, with its script."""
    from slurmgen.jobs.prepare import prepare  # 50 ms, during which the login is already under way
    from slurmgen.jobs.recorded_request import with_request

    script = job.render(plan, cache_dir())
    folder = remote_dir or job.personal.remote_dir
    identity = job.identity(cache_dir())
    prepared = prepare(plan, script, route, job.project_dir, folder, max_size, send, identity)
    return with_request(prepared, job, send)


def _arrays(job: JobSpec | FileJob, prepared: "Prepared") -> "list[Prepared]":
    """What is submitted: more than one only for a sweep beyond the site's array size."""
    if isinstance(job, FileJob) or not prepared.record.tasks:
        return [prepared]
    from slurmgen.jobs.sweep_arrays import arrays_of

    return arrays_of(prepared, job.plan(), lambda plan: job.render(plan, cache_dir()))


def _test_only(connecting: "BackgroundLogin", prepared: "Prepared", as_json: bool) -> None:
    from slurmgen.jobs.exactly_once import try_out
    from slurmgen.jobs.submit import advised

    route = prepared.route
    with connecting.transport() as transport:
        try:
            reply = try_out(transport, prepared.submission.script)
        except CommandFailed as error:
            raise advised(error, prepared) from error
    if as_json:
        from slurmgen.cli.objects.jobs import Accepted

        print_json(Accepted(site=route.site, via=route.via, answer=reply))
    name = f"the twin of {route.site}" if route.via == "twin" else route.site
    say(f"{name} would accept the job: {reply}")


def _submit(
    connecting: "BackgroundLogin",
    arrays: "list[Prepared]",
    notes: tuple[str, ...],
    again: bool,
    follow: bool,
    as_json: bool,
    of_first: str = "",
) -> None:
    from slurmgen.cli.submit_progress import Printer
    from slurmgen.jobs.submit import submission, submissions

    entry = None
    if of_first:
        from slurmgen.cli.submit_first import claim_one

        arrays, entry = claim_one(arrays, of_first, again=again)
    several = len(arrays) > 1

    def show_ids(outcomes: "Sequence[Outcome]") -> None:
        print_ids(outcomes, as_json) if several else print_id(outcomes[0], as_json)

    prepared, printer = arrays[0], Printer(arrays[0], notes, show_ids)
    if several:
        with submissions(arrays, connecting.transport, again=again, observer=printer) as outcomes:
            for outcome in outcomes:
                say_result(prepared, outcome)
        return
    login = connecting.transport
    with submission(prepared, login, again=again, observer=printer, entry=entry) as outcome:
        say_result(prepared, outcome)
        if follow:
            follow_job(outcome, prepared.route)


def follow_job(outcome: "Outcome", route: "Route", *, err: bool = True) -> None:
    """Show the log of a job until it ends; exits with 1 unless it is COMPLETED."""
    from slurmgen.cli.logs import follow_to_end
    from slurmgen.jobs.logs import find_log
    from slurmgen.jobs.slurm_client import job_states

    record, job, transport = outcome.record, outcome.submitted.job, outcome.transport
    path = find_log(transport, record, job)
    for state in job_states(transport, job):
        if state.state == "PENDING":
            reason = f" ({state.reason})" if state.reason else ""
            say(f"job {job} is PENDING{reason}; its log follows when it starts")
    follow_to_end(transport, route, job, path, err=err)
