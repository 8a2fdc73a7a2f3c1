"""`slurmgen logs`: the log of a job, once or until the job ends."""

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from slurmgen.cli.help import Command
from slurmgen.cli.job_output import print_jobs
from slurmgen.cli.log_output import LogOutput, writer
from slurmgen.cli.route_options import connect, find_jobs, jobs_options

if TYPE_CHECKING:
    from slurmgen.cli.objects.jobs import Log
    from slurmgen.jobs.job import Job
    from slurmgen.jobs.ledger import Record
    from slurmgen.jobs.logs import Shown
    from slurmgen.remote.route import Route
    from slurmgen.remote.transport import Transport
    from slurmgen.slurm.commands import JobId
    from slurmgen.slurm.replies import JobState


INTERRUPTED = 130
"Exit code after ^C."


@click.command(
    "logs",
    cls=Command,
    examples={
        "slurmgen logs last --follow": "Show the log of the last job until it ends",
        "slurmgen logs -f 1234567 1234568": "Follow two jobs; each line begins with the id of its job",
        "slurmgen logs last --tail 20 --rank 3": "Show the last 20 lines of rank 3",
        "slurmgen logs 1234567_3": "Show the log of one task of an array",
    },
)
@jobs_options
@click.option(
    "-f", "--follow", is_flag=True, help="Show the log until the job ends; exit 0 if it COMPLETED, else 1."
)
@click.option(
    "--start", type=click.IntRange(min=0), default=0, metavar="BYTE", help="First byte to show; default: 0."
)
@click.option(
    "--tail", type=click.IntRange(1), metavar="N", help="Show only the last N lines, and what follows them."
)
@click.option(
    "--rank",
    type=click.IntRange(0),
    metavar="N",
    help="Show only the lines that are labelled with rank N; see label_ranks.",
)
@click.option("--stderr", is_flag=True, help="Show the file of stderr, if --sbatch error=FILE gave it one.")
def command(
    job_ids: tuple[str, ...],
    site: str | None,
    as_json: bool,
    follow: bool,
    start: int,
    tail: int | None,
    rank: int | None,
    stderr: bool,
    **options: Any,
) -> int:
    """Show the log of a job, or follow it until the job ends.

    ID is a job id, ID_TASK in an array, a job name, or `last`. If the connection breaks, --follow reconnects;
    it neither loses nor repeats a byte. It follows several jobs together, and begins each line with the id of
    its job. --json prints where the logs are, not their content. Exits with 1 if the folder of a job was
    pruned, and the log with it.
    """
    _check(as_json=as_json, follow=follow, start=start, tail=tail, rank=rank)
    from slurmgen.jobs.job import for_each
    from slurmgen.jobs.log_files import is_pruned, path_of

    jobs = find_jobs(job_ids, site, **options)
    if follow and len(jobs) > 1:
        if start:
            raise click.UsageError("--start is a byte of one log. Name one job, or use --tail.")
        from slurmgen.cli.logs_together import follow_together

        return follow_together(jobs, tail, rank, stderr=stderr)

    def show(transport: "Transport", job: "Job") -> bool:
        path = path_of(transport, job, stderr=stderr)
        if follow:
            if gone := is_pruned(transport, job):
                _echo(pruned(job))
            first = first_byte(transport, path, start, tail, rank)
            follow_to_end(
                transport, job.route, job.id, path, start=first, fails=gone, stderr=stderr, rank=rank
            )
        if len(jobs) > 1:
            _print_heading(job, path)
        return _show(
            transport, job, path, first_byte(transport, path, start, tail, rank), rank, stderr=stderr
        )

    if not as_json:
        return int(any(for_each(jobs, connect, show)))
    logs = for_each(jobs, connect, lambda transport, job: _metadata(transport, job, stderr=stderr))
    print_jobs([log for log, _ in logs], several=len(job_ids) > 1)
    return int(any(gone for _, gone in logs))


def _check(*, as_json: bool, follow: bool, start: int, tail: int | None, rank: int | None) -> None:
    if follow and as_json:
        raise click.UsageError("--follow goes without --json.")
    if tail and start:
        raise click.UsageError("--tail and --start exclude each other.")
    if as_json and (tail or rank is not None):
        raise click.UsageError("--json shows no lines, and goes without --tail and --rank.")


def first_byte(transport: "Transport", path: str, start: int, tail: int | None, rank: int | None) -> int:
    """The first byte of a log to show, by --start or --tail."""
    from slurmgen.jobs.logs import tail_start

    return tail_start(transport, path, tail, rank) if tail else start


def follow_to_end(
    transport: "Transport",
    route: "Route",
    job: "JobId",
    path: str,
    *,
    start: int = 0,
    err: bool = False,
    fails: bool = False,
    stderr: bool = False,
    rank: int | None = None,
) -> None:
    """Follow the log until the job ends, and print its state; exits with 0 if it COMPLETED, else 1.

    Args:
        transport: the connection to the job's site.
        route: how to connect again.
        job: the job.
        path: its log.
        start: the first byte to show.
        err: write to stderr.
        fails: exit with 1 in any case.
        stderr: the log is the file of the job's stderr.
        rank: show only the lines of this rank.
    """
    from slurmgen.jobs.logs import Shown

    show, finish = writer(rank, LogOutput(err=err))
    options = (
        f"--site {route.site}{' --stderr' if stderr else ''}{f' --rank {rank}' if rank is not None else ''}"
    )
    try:
        states, transport = _follow(transport, route, job, path, Shown(show, start), options)
    finally:
        finish()
    records = records_of(route, job)
    with transport:
        state = print_end(transport, records, route, job, states)
    if not stderr:
        _offer_stderr(records, job)
    click.get_current_context().exit(1 if fails or state != "COMPLETED" else 0)


def _follow(
    transport: "Transport", route: "Route", job: "JobId", path: str, shown: "Shown", options: str
) -> "tuple[tuple[JobState, ...], Transport]":
    from slurmgen.jobs.follow import follow_through
    from slurmgen.jobs.logs import Followed

    try:
        states, transport = follow_through(
            transport,
            lambda: connect(route, interactive=False),
            [Followed(job, path, shown)],
            report=_echo,
            resume_command=lambda: f"slurmgen logs -f {job} {options} --start {shown.bytes}",
        )
        return states[job], transport
    except KeyboardInterrupt:
        _echo("")
        _echo(f"job {job} is not cancelled; see `slurmgen logs -f {job}` and `slurmgen cancel {job}`")
        click.get_current_context().exit(INTERRUPTED)


def records_of(route: "Route", job: "JobId") -> "tuple[Record, ...]":
    """The records of a job; none if the ledger cannot be read, since the log was shown all the same."""
    from slurmgen.errors import ConfigError
    from slurmgen.jobs.ledger import Ledger

    with suppress(ConfigError):
        return Ledger().find(job.number.partition("_")[0], route.site)
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
            _echo(f"{report.why.what}. {report.why.todo}")
    for line in lines(run) if run else describe(states, job, transport.where):
        _echo(line)
    return run.state if run else outcome(states)


def _offer_stderr(records: "Iterable[Record | None]", job: "JobId") -> None:
    """Name the file of stderr, if there is one."""
    from slurmgen.jobs.logs import recorded_logs

    for record in filter(None, records):
        for path in recorded_logs(record, str(job))[1:]:
            _echo(f"stderr is in {path}; `slurmgen logs {job} --stderr` shows it")


def _show(
    transport: "Transport", job: "Job", path: str, start: int, rank: int | None, *, stderr: bool
) -> bool:
    """Print a log, or why there is none; returns whether it was pruned."""
    from slurmgen.jobs.log_files import is_pruned
    from slurmgen.jobs.logs import read

    is_empty, (show, finish) = True, writer(rank, LogOutput())
    for chunk in read(transport, path, start):
        show(chunk)
        is_empty = False
    finish()
    if is_empty and is_pruned(transport, job):
        _echo(pruned(job))
        return True
    if is_empty:
        _echo(f"{path} is empty or does not exist")
        _print_state(transport, job.id)
    if not stderr:
        _offer_stderr([job.record], job.id)
    return False


def _metadata(transport: "Transport", job: "Job", *, stderr: bool) -> "tuple[Log, bool]":
    """Where a log is and how long, and whether it was pruned."""
    from slurmgen.cli.objects.jobs import Log
    from slurmgen.jobs.log_files import is_pruned, look, path_of

    log = look(transport, path_of(transport, job, stderr=stderr))
    if gone := log.size is None and is_pruned(transport, job):
        _echo(pruned(job))
    return Log(id=job.id.number, site=job.route.site, path=log.path, size=log.size, text=log.text), gone


def pruned(job: "Job") -> str:
    """That there is no log any more."""
    return f"job {job.id} was pruned: its folder at {job.route.site} is gone, and its log with it"


def _print_heading(job: "Job", path: str) -> None:
    """Print which log follows, as tail does."""
    from slurmgen.text import visible

    click.echo(visible(f"==> job {job.id} at {job.route.site}: {path} <=="))


def _print_state(transport: "Transport", job: "JobId") -> None:
    from slurmgen.jobs.report_text import describe
    from slurmgen.jobs.slurm_client import job_states

    for line in describe(job_states(transport, job), job, transport.where):
        _echo(line)


def _echo(text: str) -> None:
    from slurmgen.text import visible

    click.echo(visible(text), err=True)
