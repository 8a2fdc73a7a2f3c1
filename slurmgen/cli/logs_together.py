"""`slurmgen logs -f A B`: the logs of several jobs together; each line begins with the id of its job."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

import click

from slurmgen.cli.log_following import INTERRUPTED, exit_code_of, print_end, records_of
from slurmgen.cli.log_output import LogOutput, writer
from slurmgen.cli.log_part import Part
from slurmgen.cli.route_options import connect
from slurmgen.text import visible

if TYPE_CHECKING:
    from slurmgen.jobs.job import Job
    from slurmgen.remote.route import Route
    from slurmgen.remote.transport import Transport
    from slurmgen.slurm.replies import JobState

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


class Log:
    """The log of one of the jobs."""

    def __init__(self, job: "Job", prefix: str, start: int, path: str, rank: int | None):
        from slurmgen.jobs.logs import Followed, Shown

        show, self.finish = writer(rank, Prefixed(prefix))
        self.job = job
        self.followed = Followed(job.id, path, Shown(show, start), has_ended=bool(job.final))


def follow_together(jobs: "Sequence[Job]", part: Part) -> int:
    """Follow the logs of jobs to their ends, and print how they ended; returns 0 if all COMPLETED, else 1.

    Each site has one connection and one thread. Only the logins prompt, one after the other.
    """
    from slurmgen.jobs.follow import begun
    from slurmgen.jobs.job import group_by_route

    names = _names(jobs)
    sites: list[Future[int]] = []
    for route, group in group_by_route(jobs).items():
        looks = partial(_logs, group, names, part)
        transport, logs = begun(partial(connect, route), looks)
        sites.append(_started(partial(_follow, transport, route, logs, part)))
    try:
        return max([site.result() for site in sites])
    except KeyboardInterrupt:
        _say(f"the jobs are not cancelled; see `slurmgen cancel {' '.join(str(job.id) for job in jobs)}`")
        return INTERRUPTED


def _names(jobs: "Sequence[Job]") -> "dict[Job, str]":
    """How lines name their jobs: by id and the run of a task, and by site if the jobs are at several."""
    several = len({job.route.site for job in jobs}) > 1
    ids = {job: str(job.id) if job.run is None else f"{job.id}/{job.run}" for job in jobs}
    return {job: f"{job.route.site} {id_}" if several else id_ for job, id_ in ids.items()}


def _logs(jobs: "Sequence[Job]", names: "Mapping[Job, str]", part: Part, transport: "Transport") -> list[Log]:
    paths = {job: part.path(transport, job) for job in jobs}
    return [
        Log(job, f"{names[job]}: ", part.bytes(transport, path)[0], path, part.rank)
        for job, path in paths.items()
    ]


def _started(action: Callable[[], int]) -> "Future[int]":
    """Run an action in a thread that does not keep the process alive after ^C."""
    future: Future[int] = Future()

    def run() -> None:
        try:
            future.set_result(action())
        except BaseException as error:  # `result` raises it
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def _follow(transport: "Transport", route: "Route", logs: Sequence[Log], part: Part) -> int:
    """Follow the logs of one site; returns 0 if all jobs COMPLETED, else 1."""
    from slurmgen.jobs.follow import follow_through

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


def _resume_command(route: "Route", logs: Sequence[Log], part: Part) -> str:
    ids = " ".join(str(log.job.id) for log in logs)
    return f"slurmgen logs -f {ids} --site {route.site}{part.options} --tail 1"


def _end(transport: "Transport", job: "Job", states: "tuple[JobState, ...]") -> int:
    """Print how a job ended, and keep it in the ledger; returns its exit code."""
    with _writes:
        state = print_end(transport, records_of(job.route, job.id), job.route, job.id, states)
    return exit_code_of(state)


def _say(text: str) -> None:
    with _writes:
        click.echo(visible(text), err=True)
