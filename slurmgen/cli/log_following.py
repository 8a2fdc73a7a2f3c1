"""Following the log of a job until the job ends."""

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from slurmgen.cli.log_output import LogOutput, writer
from slurmgen.cli.log_part import Part, echo, offer_stderr
from slurmgen.cli.route_options import connect

if TYPE_CHECKING:
    from slurmgen.jobs.ledger import Record
    from slurmgen.jobs.logs import Shown
    from slurmgen.remote.route import Route
    from slurmgen.remote.transport import Transport
    from slurmgen.slurm.commands import JobId
    from slurmgen.slurm.replies import JobState

INTERRUPTED = 130
"Exit code after ^C."
WHOLE = Part()


def follow_to_end(
    transport: "Transport",
    route: "Route",
    job: "JobId",
    path: str,
    part: Part = WHOLE,
    start: int = 0,
    *,
    err: bool = False,
    fails: bool = False,
) -> None:
    """Follow the log until the job ends, and print its state; exits as `exit_code_of`.

    Args:
        transport: the connection to the job's site.
        route: how to connect again.
        job: the job.
        path: its log.
        part: the part to show.
        start: its first byte.
        err: write to stderr.
        fails: exit with 1 in any case.
    """
    from slurmgen.jobs.logs import Shown

    show, finish = writer(part.rank, LogOutput(err=err))
    shown = Shown(show, start)
    try:
        states, transport = _follow(transport, route, job, path, shown, part)
    finally:
        finish()
    records = records_of(route, job)
    with transport:
        state = print_end(transport, records, route, job, states)
    if not part.stderr:
        offer_stderr(records, job)
    click.get_current_context().exit(1 if fails else exit_code_of(state))


def exit_code_of(state: str) -> int:
    """0 for a job that COMPLETED, 3 for one whose end is not known, else 1."""
    return 0 if state == "COMPLETED" else 3 if state in ("GONE", "UNKNOWN") else 1


def _follow(
    transport: "Transport", route: "Route", job: "JobId", path: str, shown: "Shown", part: Part
) -> "tuple[tuple[JobState, ...], Transport]":
    from slurmgen.jobs.follow import follow_through
    from slurmgen.jobs.logs import Followed

    try:
        states, transport = follow_through(
            transport,
            lambda: connect(route, interactive=False),
            [Followed(job, path, shown, has_ended=any(record.final for record in records_of(route, job)))],
            report=echo,
            resume_command=lambda: (
                f"slurmgen logs -f {job} --site {route.site}{part.options} --start {shown.bytes}"
            ),
        )
        return states[job], transport
    except KeyboardInterrupt:
        echo("")
        echo(f"job {job} is not cancelled; see `slurmgen logs -f {job}` and `slurmgen cancel {job}`")
        click.get_current_context().exit(INTERRUPTED)


def records_of(route: "Route", job: "JobId") -> "tuple[Record, ...]":
    """The records of a job; none if the ledger cannot be read, since the log was shown all the same."""
    from slurmgen.errors import ConfigError
    from slurmgen.jobs.job import job_id
    from slurmgen.jobs.ledger import Ledger

    with suppress(ConfigError):
        found = Ledger().with_id(job.number.partition("_")[0])
        return tuple(
            one for one in found if one.site == route.site and job.identity in (None, job_id(one).identity)
        )
    return ()


def print_end(
    transport: "Transport",
    records: "Iterable[Record]",
    route: "Route",
    job: "JobId",
    states: "tuple[JobState, ...]",
) -> str:
    """Keep in the ledger how a job ended, and print it and the bad nodes that it found; returns its state."""
    from slurmgen.jobs.job import Job
    from slurmgen.jobs.report_text import describe, lines
    from slurmgen.jobs.slurm_client import outcome
    from slurmgen.jobs.status import end_of

    reports = [end_of(transport, Job(job, route, record), states) for record in records]
    run = next((report for report in reports if report.job.segments), None)
    for report in reports:
        if report.bad_nodes and report.why and report is not run:
            echo(f"{report.why.what}. {report.why.todo}")
    for line in lines(run) if run else describe(states, job, transport.where):
        echo(line)
    return run.state if run else outcome(states)
