"""The parts of submitting one job that `submit`, `resubmit`, `run` and `preflight` share."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import structs

from slurmgen.cli.job_command import typed
from slurmgen.cli.job_output import print_json, say
from slurmgen.cli.paths import cache_dir
from slurmgen.cli.sending_options import Sending
from slurmgen.cli.submit_output import print_id, print_ids, say_result
from slurmgen.errors import CommandFailed, RequestError
from slurmgen.job_spec import JobSpec

if TYPE_CHECKING:
    from slurmgen.jobs.ledger import Record
    from slurmgen.jobs.one_job import Outcome
    from slurmgen.jobs.prepare import Prepared
    from slurmgen.plan import Plan
    from slurmgen.remote.background import BackgroundLogin
    from slurmgen.remote.route import Route
    from slurmgen.remote.transport import Transport
    from slurmgen.slurm.commands import JobId


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


def prepared_job(job: JobSpec, plan: "Plan", route: "Route", sending: Sending) -> "Prepared":
    """The submission of a plan, with its script."""
    from slurmgen.jobs.prepare_job import prepare_job  # 50 ms, during which the login is already under way

    return prepare_job(job, plan, route, sending.upload(), cache_dir())


def test_only(connecting: "BackgroundLogin", prepared: "Prepared", as_json: bool) -> None:
    """Check whether Slurm would accept a job, and print its reply."""
    from slurmgen.jobs.exactly_once import try_out
    from slurmgen.jobs.one_job import advised

    route = prepared.route
    with connecting.transport() as transport:
        try:
            reply = try_out(transport, prepared.submission.script, prepared.submission.sbatch_options)
        except CommandFailed as error:
            raise advised(error, prepared) from error
    if as_json:
        from slurmgen.cli.objects.jobs import Accepted

        print_json(Accepted(site=route.site, via=route.via, answer=reply))
    say(f"{route.place} would accept the job: {reply}")


def submit_arrays(
    connecting: "BackgroundLogin",
    arrays: "list[Prepared]",
    notes: tuple[str, ...],
    again: bool,
    follow: bool,
    as_json: bool,
) -> None:
    """Submit one job, or the arrays of a sweep, and print the ids."""
    from slurmgen.cli.submit_progress import Printer
    from slurmgen.jobs.sweep_arrays import submit_arrays as submitting

    several = len(arrays) > 1

    def show_ids(outcomes: "Sequence[Outcome]") -> None:
        print_ids(outcomes, as_json) if several else print_id(outcomes[0], as_json)

    prepared, printer = arrays[0], Printer(arrays[0], notes, show_ids)
    with submitting(arrays, connecting.transport, again=again, observer=printer) as outcomes:
        for outcome in outcomes:
            say_result(prepared, outcome)
        if follow:  # `check_follow` refuses arrays
            follow_job(outcomes[0], prepared.route)


def follow_job(outcome: "Outcome", route: "Route", *, err: bool = True) -> None:
    """Show the log of a job until it ends; exits with 1 unless it is COMPLETED."""
    from slurmgen.jobs.job import job_id

    follow_log(outcome.transport, outcome.record, job_id(outcome.record), route, err=err)


def follow_log(
    transport: "Transport", record: "Record", job: "JobId", route: "Route", *, err: bool = True
) -> None:
    """`follow_job` for a job that is recorded."""
    from slurmgen.cli.log_following import follow_to_end
    from slurmgen.jobs.log_paths import find_log
    from slurmgen.jobs.slurm_client import job_states

    path = find_log(transport, record, job)
    for state in job_states(transport, job):
        if state.state == "PENDING":
            reason = f" ({state.reason})" if state.reason else ""
            say(f"job {job} is PENDING{reason}; its log follows when it starts")
    follow_to_end(transport, route, job, path, err=err)
