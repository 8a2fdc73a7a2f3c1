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
from typing import Any, TypedDict, Unpack, overload

from slurmgen.errors import RequestError
from slurmgen.job_spec import JobSpec, spec_of
from slurmgen.ledger.ledger import Record
from slurmgen.plan import Plan
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
from slurmgen.submit.first import FirstJob, Logins, submit_first
from slurmgen.submit.how import How
from slurmgen.submit.job import ProjectJob
from slurmgen.submit.job import submit as submit_work
from slurmgen.submit.submission import Observer

AnyJob = str | int | Record
"An id, a name, `last`, or what `submit` returned. A string is always one name, never a sequence of them."
_log = logging.getLogger(__name__)
_Jobs = Callable[[Sequence[Job]], list[Report]]


class Sending(TypedDict, total=False):
    """How a job is submitted; as the options of the same names."""

    remote_dir: str | None
    again: bool
    send: Sequence[str]
    max_size: int
    exclude_bad_nodes: bool
    after: Sequence[str]
    via: Via | None
    host: str | None
    ssh_config: str | None
    ssh_client: SshClient | None


class Where(TypedDict, total=False):
    """Where a job is, if not where its record says; as the options of the same names."""

    site: str | None
    via: Via | None
    host: str | None
    ssh_config: str | None
    ssh_client: SshClient | None


def submit(
    job: Plan | JobSpec,
    project_dir: Path | str | None = None,
    *,
    first: Sequence[str] = (),
    observer: Observer | None = None,
    **sending: Unpack[Sending],
) -> Record:
    """Send a project and submit its job exactly once, as `slurmgen submit` does.

    If it fails, the same call finds the job, or submits it if there is none. It never prompts: the login
    needs a key, an agent, or a shared connection of OpenSSH.

    Args:
        job: what `load_job` or `resolve` returned.
        project_dir: for a plan, the folder of its project or one below it; default: the current folder.
        first: for a job of `load_job`, submit it to all of these sites, wait until one starts, let that one
            run the program, and cancel the others; a repeated call continues.
        observer: is called as the submission proceeds.
        sending: `remote_dir`: the remote folder for submissions; default: that of personal.toml, else
            ~/slurmgen.
            `again`: submit a new job even if an earlier submission is unsettled.
            `send`: files to send although they may hold secrets or are ignored.
            `max_size`: bytes of the project, above which nothing is sent.
            `exclude_bad_nodes`: for a job of `load_job`, exclude the nodes that are remembered as bad.
            `after`: the jobs that must end first, each `[TYPE:]JOB`; default: those of slurmgen.toml.
            `via`: how to reach the site; default: ssh if it has a login host, else local.
            `host`: login host, as `[USER@]HOST`; default: that of personal.toml, else of the profile.
            `ssh_config`: OpenSSH configuration; default: ~/.ssh/config.
            `ssh_client`: SSH client; default: paramiko.

    Returns:
        The record of the job; of a sweep with several arrays, that of the first, whose `part_of` all share;
        with `first`, that of the job that runs the program.

    Raises:
        RequestError, ConfigError: the request or the project is invalid; nothing was sent.
        Unresolved: there may be a job; call it again.
        RemoteError: there is no job; with `first`, no job runs the program.
    """
    how, observer = How(**_frozen(sending)), observer or Observer()
    if first:
        return _submit_first(job, (first,) if isinstance(first, str) else first, how, observer)
    if isinstance(job, JobSpec) and project_dir is not None:
        raise RequestError("the job has a project of its own", "Leave out project_dir; load_job takes it.")
    if isinstance(job, JobSpec):
        work = ProjectJob(job)
    else:
        work = ProjectJob(spec_of(job, Path(project_dir or ".")), job)
    with submit_work(work, how, observer) as outcomes:
        return outcomes[0].record


def _frozen(sending: Sending) -> dict[str, Any]:
    return {key: tuple(value) if key in ("send", "after") else value for key, value in sending.items()}  # type: ignore[arg-type]


def _submit_first(job: Plan | JobSpec, sites: Sequence[str], how: How, observer: Observer) -> Record:
    """Submit to the site that starts first; refuse what belongs to one site.

    Raises:
        RequestError: the job is a plan, or names a site or another job.
    """
    if not isinstance(job, JobSpec):
        raise RequestError("a plan is for one site, and `first` is for several", "Use what load_job returns.")
    if job.options.site:
        raise RequestError("the job names a site, and `first` others", "Leave out the site of load_job.")
    if how.after:
        raise RequestError("after and first exclude each other", "Submit the job to one site.")
    first = FirstJob(
        options=job.options,
        folder=job.project_dir,
        sites=tuple(dict.fromkeys(sites)),
        how=how,
        observe=lambda: observer,
    )
    with Logins(open_route) as logins, submit_first(first, logins, _log.info, lambda *_: None) as winner:
        return winner.record


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
