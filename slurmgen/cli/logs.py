"""`slurmgen logs`: the log of a job, once or until the job ends."""

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from slurmgen.cli.help import Command
from slurmgen.cli.job_output import print_jobs
from slurmgen.cli.log_output import LogOutput
from slurmgen.cli.route_options import connect, find_jobs, jobs_options

if TYPE_CHECKING:
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
@click.option("--stderr", is_flag=True, help="Show the file of stderr, if --sbatch error=FILE gave it one.")
def command(
    job_ids: tuple[str, ...],
    site: str | None,
    as_json: bool,
    follow: bool,
    start: int,
    stderr: bool,
    **options: Any,
) -> int:
    """Show the log of a job, or follow it until the job ends.

    ID is a job id, ID_TASK in an array, a job name, or `last`. If the connection breaks, --follow reconnects;
    it neither loses nor repeats a byte. --json prints where the logs are, not their content. Exits with 1 if
    the folder of a job was pruned, and the log with it.
    """
    if follow and (as_json or len(job_ids) > 1):
        raise click.UsageError("--follow shows one log, and goes without --json.")
    from slurmgen.jobs.job import for_each

    jobs = find_jobs(job_ids, site, **options)

    def show(transport: "Transport", job: "Job") -> bool:
        path = _path(transport, job, stderr=stderr)
        if follow:
            if pruned := _is_pruned(transport, job):
                _echo(_pruned(job))
            follow_to_end(transport, job.route, job.id, path, start=start, fails=pruned, stderr=stderr)
        if len(jobs) > 1:
            _print_heading(job, path)
        return _show(transport, job, path, start, stderr=stderr)

    if not as_json:
        return int(any(for_each(jobs, connect, show)))
    logs = for_each(jobs, connect, lambda transport, job: _metadata(transport, job, stderr=stderr))
    print_jobs([log for log, _ in logs], several=len(job_ids) > 1)
    return int(any(pruned for _, pruned in logs))


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
    """
    from slurmgen.jobs.logs import Shown
    from slurmgen.jobs.report_text import describe
    from slurmgen.jobs.slurm_client import outcome

    write = LogOutput(err=err)
    options = f"--site {route.site}{' --stderr' if stderr else ''}"
    try:
        states = _follow(transport, route, job, path, Shown(write, start), options)
    finally:
        write.finish()
    records = _records(route, job)
    _save_final_states(transport, records, route, job, states)
    for line in describe(states, job, transport.where):
        click.echo(line, err=True)
    if not stderr:
        _offer_stderr(records, job)
    click.get_current_context().exit(1 if fails or outcome(states) != "COMPLETED" else 0)


def _follow(
    transport: "Transport", route: "Route", job: "JobId", path: str, shown: "Shown", options: str
) -> "tuple[JobState, ...]":
    from slurmgen.jobs.follow import follow_through

    try:
        return follow_through(
            transport,
            lambda: connect(route, interactive=False),
            job,
            path,
            shown,
            report=_echo,
            resume_command=lambda: f"slurmgen logs -f {job} {options} --start {shown.bytes}",
        )
    except KeyboardInterrupt:
        _echo("")
        _echo(f"job {job} is not cancelled; see `slurmgen logs -f {job}` and `slurmgen cancel {job}`")
        click.get_current_context().exit(INTERRUPTED)


def _records(route: "Route", job: "JobId") -> "tuple[Record, ...]":
    """The records of a job; none if the ledger cannot be read, since the log was shown all the same."""
    from slurmgen.errors import ConfigError
    from slurmgen.jobs.ledger import Ledger

    with suppress(ConfigError):
        return Ledger().find(job.number.partition("_")[0], route.site)
    return ()


def _save_final_states(
    transport: "Transport",
    records: "Iterable[Record]",
    route: "Route",
    job: "JobId",
    states: "tuple[JobState, ...]",
) -> None:
    from slurmgen.jobs.job import Job
    from slurmgen.jobs.reported_nodes import if_readable
    from slurmgen.jobs.status import make_report, save_final_states

    reports = [make_report(Job(job, route, record), states) for record in records]
    reports = if_readable(transport, reports)
    save_final_states(reports)
    for report in reports:
        if report.bad_nodes and report.why:
            _echo(f"{report.why.what}. {report.why.todo}")


def _offer_stderr(records: "Iterable[Record | None]", job: "JobId") -> None:
    """Name the file of stderr, if there is one."""
    from slurmgen.jobs.logs import recorded_logs

    for record in filter(None, records):
        for path in recorded_logs(record, str(job))[1:]:
            _echo(f"stderr is in {path}; `slurmgen logs {job} --stderr` shows it")


def _path(transport: "Transport", job: "Job", *, stderr: bool) -> str:
    from slurmgen.jobs.logs import find_log

    if job.run is not None and not stderr:
        return job.log
    return find_log(transport, job.record, job.id, stderr=stderr)


def _show(transport: "Transport", job: "Job", path: str, start: int, *, stderr: bool) -> bool:
    """Print a log, or why there is none; returns whether it was pruned."""
    from slurmgen.jobs.logs import read

    is_empty, write = True, LogOutput()
    for chunk in read(transport, path, start):
        write(chunk)
        is_empty = False
    write.finish()
    if is_empty and _is_pruned(transport, job):
        _echo(_pruned(job))
        return True
    if is_empty:
        _echo(f"{path} is empty or does not exist")
        _print_state(transport, job.id)
    if not stderr:
        _offer_stderr([job.record], job.id)
    return False


def _metadata(transport: "Transport", job: "Job", *, stderr: bool) -> tuple[dict[str, object], bool]:
    """Where a log is and how long, and whether it was pruned."""
    from msgspec import structs

    from slurmgen.jobs.log_files import look

    log = look(transport, _path(transport, job, stderr=stderr))
    if pruned := log.size is None and _is_pruned(transport, job):
        _echo(_pruned(job))
    return {"id": job.id.number, "site": job.route.site, **structs.asdict(log)}, pruned


def _is_pruned(transport: "Transport", job: "Job") -> bool:
    """Whether the folder that the job ran in no longer exists."""
    from slurmgen.jobs.log_files import has_folder

    return job.record is not None and not has_folder(transport, job.record.folder)


def _pruned(job: "Job") -> str:
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
