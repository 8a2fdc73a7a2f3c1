"""The Python functions for submitted jobs. The commands of the same names call the same code.

A job is given as its id, its name, `last`, or the record that `submit` returned. As on the command line, the
name or the record of a sweep means all its arrays, `NAME[lr=1e-3]` the tasks with such parameters, and the
key of a group all its jobs; `logs`, `follow` and `fetch` take only one job. Connections never prompt: the
login needs a key, an agent, or a shared connection of OpenSSH. docs/api.md has examples.
"""

import codecs
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypedDict, Unpack, overload

from slurmgen.ledger.ledger import Record
from slurmgen.remote.route import Route, SshClient, Via, open_route
from slurmgen.remote.transport import Transport
from slurmgen.results.fetch import MAX_SIZE, Results, fetch_results, local_folder
from slurmgen.status import lookup
from slurmgen.status import wait as waiting
from slurmgen.status.follow import begun, follow_through
from slurmgen.status.job import Job
from slurmgen.status.logs import Followed, Shown, path_of, read
from slurmgen.status.query import end_of, query, save_final_states
from slurmgen.status.report import Report
from slurmgen.status.sweep import combined
from slurmgen.submit.cancel import cancel_all

AnyJob = str | int | Record
"An id, a name, `last`, or what `submit` returned. A string is always one name, never a sequence of them."
_log = logging.getLogger(__name__)
_Jobs = Callable[[Sequence[Job]], list[Report]]


class Where(TypedDict, total=False):
    """Where a job is, if not where its record says; as the options of the same names."""

    site: str | None
    via: Via | None
    host: str | None
    ssh_config: str | None
    ssh_client: SshClient | None


@overload
def status(job: AnyJob, **where: Unpack[Where]) -> Report: ...  # type: ignore[overload-overlap]
@overload
def status(job: Sequence[AnyJob], **where: Unpack[Where]) -> list[Report]: ...
def status(job: AnyJob | Sequence[AnyJob], **where: Unpack[Where]) -> Report | list[Report]:
    """Query the state of a job, or of several.

    Args:
        job: the job, or a list of jobs.
        where: `site`, `via`, `host`, `ssh_config` and `ssh_client`, as the options of the command line.

    Returns:
        A report for a job, and a list of reports in the same order for a list.

    Raises:
        RequestError: there is no such job.
        RemoteError: the site was not reached, or Slurm did not reply.
    """
    return _reports(job, where, lambda jobs: query(jobs, open_route))


@overload
def wait(job: AnyJob, *, timeout: float | None = None, **where: Unpack[Where]) -> Report: ...  # type: ignore[overload-overlap]
@overload
def wait(job: Sequence[AnyJob], *, timeout: float | None = None, **where: Unpack[Where]) -> list[Report]: ...
def wait(
    job: AnyJob | Sequence[AnyJob], *, timeout: float | None = None, **where: Unpack[Where]
) -> Report | list[Report]:
    """Wait until a job has ended, or several.

    Args:
        job: the job, or a list of jobs.
        timeout: seconds; default: no limit. A job that has not ended by then has a report that says so.
        where: see `status`.

    Returns:
        A report for a job, and a list of reports in the same order for a list.

    Raises:
        RequestError: there is no such job.
        RemoteError: the site was not reached at the first query.
    """

    def ends(jobs: Sequence[Job]) -> list[Report]:
        ended: list[Report] = []

        def on_end(report: Report) -> None:
            save_final_states([report])
            ended.append(report)

        left = waiting.wait(jobs, open_route, _log.warning, on_end, timeout)
        by_job = {report.job: report for report in (*ended, *query(left, open_route, lenient=True))}
        return [by_job[one] for one in jobs]

    return _reports(job, where, ends)


@overload
def cancel(job: AnyJob, **where: Unpack[Where]) -> Report: ...  # type: ignore[overload-overlap]
@overload
def cancel(job: Sequence[AnyJob], **where: Unpack[Where]) -> list[Report]: ...
def cancel(job: AnyJob | Sequence[AnyJob], **where: Unpack[Where]) -> Report | list[Report]:
    """Cancel a job, or several. A job that has ended stays as it is.

    Args:
        job: the job, or a list of jobs.
        where: see `status`.

    Returns:
        The state afterwards: a report for a job, and a list of reports in the same order for a list.

    Raises:
        RequestError: there is no such job.
        RemoteError: the site was not reached, or Slurm refused.
    """
    return _reports(job, where, lambda jobs: cancel_all(jobs, open_route, _log.info), to_cancel=True)


def logs(job: AnyJob, *, start: int = 0, **where: Unpack[Where]) -> Iterator[str]:
    """Read the log of a job as it is now, part by part. It is empty if the job has not written any.

    Args:
        job: the job, or a task of an array as ID_TASK.
        start: the first byte to read.
        where: see `status`.

    Raises:
        RequestError: there is no such job, or there are several, or it is a sweep.
        RemoteError: the log was not read, or the job is an array, in which each task has a log.
    """
    found = _find_one(job, where)
    return codecs.iterdecode(_read(found, start), "utf-8", errors="replace")


def follow(job: AnyJob, write: Callable[[str], object], *, start: int = 0, **where: Unpack[Where]) -> Report:
    """Write the log of a job until the job ends. If the connection breaks, no byte is lost or repeated.

    Args:
        job: the job, or a task of an array as ID_TASK.
        write: is called with each part of the log, such as `sys.stdout.write`.
        start: the first byte to write.
        where: see `status`.

    Raises:
        RequestError: there is no such job, or there are several, or it is a sweep.
        RemoteError: the host did not reply for ten minutes, or the job is an array.
    """
    found, decode = _find_one(job, where), codecs.getincrementaldecoder("utf-8")("replace").decode

    def show(part: bytes) -> None:
        write(decode(part))

    shown = Shown(show, start)

    def reconnect() -> Transport:
        return open_route(found.route)

    def resume() -> str:
        return f"slurmgen.follow({str(found.id)!r}, write, start={shown.bytes})"

    first, path = begun(reconnect, lambda transport: path_of(transport, found))
    logs = [Followed(found.id, path, shown, has_ended=bool(found.final))]
    states, last = follow_through(first, reconnect, logs, _log.warning, resume)
    with last:
        return end_of(last, found, states[found.id])


def fetch(
    job: AnyJob,
    to: Path | str | None = None,
    *,
    only: Sequence[str] = (),
    overwrite: bool = False,
    max_size: int = MAX_SIZE,
    **where: Unpack[Where],
) -> Results:
    """Fetch the files that a job made or changed. A local file is overwritten only with `overwrite`.

    Args:
        job: the job.
        to: the local folder; default: NAME-ID in the current folder.
        only: patterns of files or folders, such as `*.pt`; default: all files.
        overwrite: overwrite local files that have different content.
        max_size: bytes, above which nothing is fetched.
        where: see `status`.

    Raises:
        RequestError: there is no such job, there are several, it is not recorded, or has too many bytes.
        RemoteError: not all was received; no local file was changed.
    """
    found = _find_one(job, where)
    folder = local_folder(found, None if to is None else Path(to))
    with open_route(found.route) as transport:
        return fetch_results(transport, found, folder, only, overwrite=overwrite, max_size=max_size)


def _find_one(job: AnyJob, where: Where) -> Job:
    return lookup.only_one(_find(job, where), job.name if isinstance(job, Record) else str(job))


def _find(job: AnyJob, where: Where, *, to_cancel: bool = False) -> list[Job]:
    options = {key: value for key, value in where.items() if key != "site"}
    if isinstance(job, Record):
        return lookup.all_arrays(Job.of(job, lookup.recorded_route(job, options)))

    def route_to(site: str) -> Route:
        return lookup.site_route(site, Path.cwd(), options)

    return lookup.find_jobs([str(job)], where.get("site"), options, route_to, to_cancel=to_cancel)


def _reports(
    job: AnyJob | Sequence[AnyJob], where: Where, action: _Jobs, *, to_cancel: bool = False
) -> Report | list[Report]:
    """Call `action` with each job once, and keep in the ledger how the jobs ended.

    The reports of `action` are in the order of the jobs, since a pending one may become another one.
    """
    names = [job] if isinstance(job, str | int | Record) else job
    found = [_find(name, where, to_cancel=to_cancel) for name in names]
    jobs = list(dict.fromkeys(one for each in found for one in each))
    reports = dict(zip(jobs, action(jobs), strict=True))
    save_final_states(reports.values())
    ordered = [combined([reports[one] for one in each]) for each in found]
    return ordered if names is job else ordered[0]


def _read(job: Job, start: int) -> Iterator[bytes]:
    with open_route(job.route) as transport:
        yield from read(transport, path_of(transport, job), start)
