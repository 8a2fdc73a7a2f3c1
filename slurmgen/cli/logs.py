"""`slurmgen logs`: the log of a job, once or until the job ends."""

from typing import TYPE_CHECKING, Any

import click

from slurmgen.cli.help import Command
from slurmgen.cli.job_output import print_jobs
from slurmgen.cli.log_following import follow_to_end
from slurmgen.cli.log_output import LogOutput, writer
from slurmgen.cli.log_part import Part, echo, offer_stderr, pruned
from slurmgen.cli.route_options import connect, find_jobs, jobs_options

if TYPE_CHECKING:
    from slurmgen.cli.objects.jobs import Log
    from slurmgen.jobs.job import Job
    from slurmgen.remote.transport import Transport
    from slurmgen.slurm.commands import JobId


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
    part = Part(start=start, tail=tail, rank=rank, stderr=stderr)
    jobs = find_jobs(job_ids, site, **options)
    if as_json:
        return _print_metadata(jobs, part, several=len(job_ids) > 1)
    if follow:
        return _follow(jobs, part)
    return _print_logs(jobs, part)


def _check(*, as_json: bool, follow: bool, start: int, tail: int | None, rank: int | None) -> None:
    if follow and as_json:
        raise click.UsageError("--follow goes without --json.")
    if tail and start:
        raise click.UsageError("--tail and --start exclude each other.")
    if as_json and (tail or rank is not None):
        raise click.UsageError("--json shows no lines, and goes without --tail and --rank.")


def _follow(jobs: "list[Job]", part: Part) -> int:
    from slurmgen.jobs.follow import begun
    from slurmgen.jobs.log_files import is_pruned

    if len(jobs) > 1:
        if part.start:
            raise click.UsageError("--start is a byte of one log. Name one job, or use --tail.")
        from slurmgen.cli.logs_together import follow_together

        return follow_together(jobs, part)

    def look(transport: "Transport") -> tuple[str, int, bool]:
        path = part.path(transport, job)
        return path, part.bytes(transport, path)[0], is_pruned(transport, job)

    job = jobs[0]
    transport, (path, start, gone) = begun(lambda: connect(job.route), look)
    if gone:
        echo(pruned(job))
    follow_to_end(transport, job.route, job.id, path, part, start, fails=gone)
    return 0


def _print_logs(jobs: "list[Job]", part: Part) -> int:
    """Print logs; returns 1 if one was pruned."""
    from slurmgen.jobs.job import for_each

    def show(transport: "Transport", job: "Job") -> bool:
        path = part.path(transport, job)
        if len(jobs) > 1:
            _print_heading(job, path)
        return _show(transport, job, path, part)

    return int(any(for_each(jobs, connect, show)))


def _print_metadata(jobs: "list[Job]", part: Part, *, several: bool) -> int:
    """Print where logs are, as JSON; returns 1 if one was pruned."""
    from slurmgen.jobs.job import for_each

    logs = for_each(jobs, connect, lambda transport, job: _metadata(transport, job, part))
    print_jobs([log for log, _ in logs], several=several)
    return int(any(gone for _, gone in logs))


def _show(transport: "Transport", job: "Job", path: str, part: Part) -> bool:
    """Print a log, or why there is none; returns whether it was pruned."""
    from slurmgen.jobs.log_files import is_pruned
    from slurmgen.jobs.logs import read

    is_empty, (show, finish) = True, writer(part.rank, LogOutput())
    for chunk in read(transport, path, *part.bytes(transport, path)):
        show(chunk)
        is_empty = False
    finish()
    if is_empty and is_pruned(transport, job):
        echo(pruned(job))
        return True
    if is_empty:
        echo(f"{path} {f'has no byte {part.start}' if part.start else 'is empty'} or does not exist")
        _print_state(transport, job.id)
    if not part.stderr:
        offer_stderr([job.record], job.id)
    return False


def _metadata(transport: "Transport", job: "Job", part: Part) -> "tuple[Log, bool]":
    """Where a log is and how long, and whether it was pruned."""
    from slurmgen.cli.objects.jobs import Log
    from slurmgen.jobs.log_files import is_pruned, look

    log = look(transport, part.path(transport, job))
    if gone := log.size is None and is_pruned(transport, job):
        echo(pruned(job))
    return Log(id=job.id.number, site=job.route.site, path=log.path, size=log.size, text=log.text), gone


def _print_heading(job: "Job", path: str) -> None:
    """Print which log follows, as tail does."""
    from slurmgen.text import visible

    click.echo(visible(f"==> job {job.id} at {job.route.site}: {path} <=="))


def _print_state(transport: "Transport", job: "JobId") -> None:
    from slurmgen.jobs.report_text import describe
    from slurmgen.jobs.slurm_client import job_states

    for line in describe(job_states(transport, job), job, transport.where):
        echo(line)
