"""`slurmgen logs`: the log of a job, once or until the job ends."""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import click

from slurmgen.cli.job_objects import Log
from slurmgen.cli.log_output import (
    INTERRUPTED,
    LogOutput,
    Part,
    echo,
    exit_code_of,
    follow_to_end,
    offer_stderr,
    print_end,
    pruned,
    records_of,
    writer,
)
from slurmgen.cli.options import connect, find_jobs, jobs_options
from slurmgen.cli.output import Command, print_jobs
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Transport
from slurmgen.slurm.replies import JobState
from slurmgen.status.follow import begun, follow_through
from slurmgen.status.job import Job, for_each, group_by_route
from slurmgen.status.logs import Followed, Shown, is_pruned, look, read
from slurmgen.status.report_text import describe
from slurmgen.status.slurm import job_states
from slurmgen.text import visible
from slurmgen.worker import in_thread


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
        logs = for_each(jobs, connect, lambda transport, job: _metadata(transport, job, part))
        print_jobs([log for log, _ in logs], several=len(job_ids) > 1)
        return int(any(gone for _, gone in logs))
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


def _follow(jobs: list[Job], part: Part) -> int:
    if len(jobs) > 1:
        if part.start:
            raise click.UsageError("--start is a byte of one log. Name one job, or use --tail.")

        return follow_together(jobs, part)

    def look(transport: Transport) -> tuple[str, int, bool]:
        path = part.path(transport, job)
        return path, part.bytes(transport, path)[0], is_pruned(transport, job)

    job = jobs[0]
    transport, (path, start, gone) = begun(lambda: connect(job.route), look)
    if gone:
        echo(pruned(job))
    follow_to_end(transport, job.route, job.id, path, part, start, fails=gone)
    return 0


def _print_logs(jobs: list[Job], part: Part) -> int:
    def show(transport: Transport, job: Job) -> bool:
        path = part.path(transport, job)
        if len(jobs) > 1:
            click.echo(visible(f"==> job {job.id} at {job.route.site}: {path} <=="))
        return _show(transport, job, path, part)

    return int(any(for_each(jobs, connect, show)))


def _show(transport: Transport, job: Job, path: str, part: Part) -> bool:
    """Print a log, or why there is none; returns whether it was pruned."""
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
        for line in describe(job_states(transport, job.id), job.id, transport.where):
            echo(line)
    if not part.stderr:
        offer_stderr([job.record], job.id)
    return False


def _metadata(transport: Transport, job: Job, part: Part) -> tuple[Log, bool]:
    log = look(transport, part.path(transport, job))
    if gone := log.size is None and is_pruned(transport, job):
        echo(pruned(job))
    return Log(id=job.id.number, site=job.route.site, path=log.path, size=log.size, text=log.text), gone


LONGEST_LINE = 1 << 16
"Bytes after which a line that does not end is printed."
_writes = threading.Lock()


class Prefixed:
    """Writes the lines of one of several logs, each whole and after a prefix."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix.encode()
        self._held = b""

    def __call__(self, part: bytes, /) -> None:
        """Write the lines that end in this part."""
        *lines, self._held = (self._held + part).split(b"\n")
        if len(self._held) > LONGEST_LINE:
            lines, self._held = [*lines, self._held], b""
        self._write(lines)

    def finish(self) -> None:
        """Write the last line, which has no end."""
        self._write([self._held] if self._held else [])
        self._held = b""

    def _write(self, lines: Sequence[bytes]) -> None:
        if not lines:
            return
        with _writes:
            write = LogOutput()
            write(b"".join(self._prefix + line + b"\n" for line in lines))
            write.finish()


class JobLog:
    """The log of one of the jobs."""

    def __init__(self, job: Job, prefix: str, start: int, path: str, rank: int | None):
        show, self.finish = writer(rank, Prefixed(prefix))
        self.job = job
        self.followed = Followed(job.id, path, Shown(show, start), has_ended=bool(job.final))


def follow_together(jobs: Sequence[Job], part: Part) -> int:
    """Follow the logs of jobs to their ends, and print how they ended; returns 0 if all COMPLETED, else 1.

    Each site has one connection and one thread. Only the logins prompt, one after the other.
    """
    names = _names(jobs)
    sites: list[Future[int]] = []
    for route, group in group_by_route(jobs).items():
        looks = partial(_logs, group, names, part)
        transport, logs = begun(partial(connect, route), looks)
        sites.append(in_thread(partial(_follow_together, transport, route, logs, part)))
    try:
        return max([site.result() for site in sites])
    except KeyboardInterrupt:
        _say(f"the jobs are not cancelled; see `slurmgen cancel {' '.join(str(job.id) for job in jobs)}`")
        return INTERRUPTED


def _names(jobs: Sequence[Job]) -> dict[Job, str]:
    """How lines name their jobs: by id and the run of a task, and by site if the jobs are at several."""
    several = len({job.route.site for job in jobs}) > 1
    ids = {job: str(job.id) if job.run is None else f"{job.id}/{job.run}" for job in jobs}
    return {job: f"{job.route.site} {id_}" if several else id_ for job, id_ in ids.items()}


def _logs(jobs: Sequence[Job], names: Mapping[Job, str], part: Part, transport: Transport) -> list[JobLog]:
    paths = {job: part.path(transport, job) for job in jobs}
    return [
        JobLog(job, f"{names[job]}: ", part.bytes(transport, path)[0], path, part.rank)
        for job, path in paths.items()
    ]


def _follow_together(transport: Transport, route: Route, logs: Sequence[JobLog], part: Part) -> int:
    try:
        states, transport = follow_through(
            transport,
            lambda: connect(route, interactive=False),
            [log.followed for log in logs],
            report=_say,
            resume_command=lambda: _resume_command(route, logs, part),
        )
    finally:
        for log in logs:
            log.finish()
    with transport:
        return max([_end(transport, log.job, states[log.job.id]) for log in logs])


def _resume_command(route: Route, logs: Sequence[JobLog], part: Part) -> str:
    ids = " ".join(str(log.job.id) for log in logs)
    return f"slurmgen logs -f {ids} --site {route.site}{part.options} --tail 1"


def _end(transport: Transport, job: Job, states: tuple[JobState, ...]) -> int:
    with _writes:
        state = print_end(transport, records_of(job.route, job.id), job.route, job.id, states)
    return exit_code_of(state)


def _say(text: str) -> None:
    with _writes:
        click.echo(visible(text), err=True)
