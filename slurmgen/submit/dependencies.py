"""The jobs that a submission waits for: find them in the ledger, and check whether they may still be met."""

import time
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

from slurmgen.errors import CommandFailed, RequestError
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.ledger.races import Races
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Transport
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.dependencies import After, is_met
from slurmgen.slurm.replies import GONE
from slurmgen.status.job import Dependency, Job, job_id
from slurmgen.status.lookup import LAST, is_id, require_settled, winner_of
from slurmgen.status.query import query_site
from slurmgen.status.report import Report
from slurmgen.status.slurm import UNKNOWN

_PAUSES = (2.0, 4.0, 8.0)
"Seconds in which accounting may still receive a job."
_READ = 100
"Records of one name that are read: the last of them, since earlier ones cannot be meant."


class NeverMet(RequestError):
    """A job cannot start any more, because of how one that it depends on ended."""


def find(own: Record, afters: Sequence[After]) -> tuple[Dependency, ...]:
    """The jobs that a new record is to wait for.

    Raises:
        RequestError: there is no such job, or it cannot be waited for.
    """
    return tuple(dict.fromkeys(Dependency(job, after.type) for after in afters for job in _jobs(own, after)))


def _jobs(own: Record, after: After) -> list[Job]:
    """The job that is meant; of a sweep that is named by its name or as `last`, all its arrays."""
    name = after.job
    others = [  # without earlier tries of the same submission
        record
        for record in _named(name, own)
        if not (record.pending and record.fingerprint == own.fingerprint)
    ]
    if after.of_project:
        others = [record for record in others if _is_of_project(record, own)]
    near = [record for record in others if _is_near(record, own)]
    chosen = others[-1:] if name == LAST else near[-1:]
    if not others and is_id(name) and not after.of_project:
        return [Job(JobId(name, own.cluster), _route(own))]
    if not others:
        raise _nothing(after, own)
    record = (chosen or others)[-1]
    _check(record, own)
    if is_id(name) and record.id == name.partition("_")[0]:  # it may be a task
        return [Job(job_id(record, name), _route(own), record)]
    record = _of_race(record)
    _check(record, own)
    records = _arrays(record, after)
    return [Job.of(one, _route(own)) for one in records]


def _of_race(record: Record) -> Record:
    """The job that was chosen in the race of a record; that record itself if it is in none."""
    race = Races().of(record)
    if race and not race.chosen and not race.over:
        raise RequestError(
            f"{record.name} waits at several sites, and has not started at any of them",
            "Repeat its `slurmgen submit --first`, and submit this job when it has ended.",
        )
    return winner_of(record)


def _arrays(record: Record, after: After) -> Sequence[Record]:
    records = Ledger().group(record) if record.tasks else (record,)
    if len(records) > 1 and after.type == "notok":
        ids = ", ".join(one.id for one in records)
        raise RequestError(
            f"the sweep {record.name} has {len(records)} arrays ({ids}), "
            "and Slurm cannot wait until any one of them has failed",
            f"Name one by its id, or wait for the end of all with --after any:{after.job}.",
        )
    return records


def _named(name: str, own: Record) -> Sequence[Record]:
    ledger = Ledger()
    if is_id(name) and (found := ledger.with_id(name.partition("_")[0])):
        return found
    if name == LAST:
        return ledger.recent(_READ)
    return (*ledger.recent(_READ, name=name), *ledger.recent(_READ, own.site, name))


def _is_near(record: Record, own: Record) -> bool:
    return all(getattr(record, key) == getattr(own, key) for key in ("site", "via", "host", "cluster"))


def _is_of_project(record: Record, own: Record) -> bool:
    """Whether two jobs are of one project: of the same folder or, of old entries, of the same name."""
    folder, own_folder = _project_dir(record), _project_dir(own)
    if folder and own_folder:
        return folder == own_folder
    return _project(record) == _project(own)


def _project_dir(record: Record) -> str:
    from slurmgen.ledger.request import kept_of  # which imports this module

    try:
        return kept_of(record).project
    except RequestError:
        return ""


def _project(record: Record) -> str:
    return PurePosixPath(record.folder).parent.parent.name


def _route(record: Record) -> Route:
    return Route(**{field: getattr(record, field) for field in Route.__struct_fields__})


def _check(record: Record, own: Record) -> None:
    """Refuse jobs that Slurm cannot wait for, and unconfirmed ones."""
    if not _is_near(record, own):
        raise RequestError(
            f"job {record.id or record.name} is at {_where(record)}, and a job at {_where(own)} "
            "cannot wait for it",
            "Name a job of the same site, cluster and login host.",
        )
    require_settled(record)


def _where(record: Record) -> str:
    parts = [
        record.site,
        record.cluster and f"cluster {record.cluster}",
        record.host and f"host {record.host}",
    ]
    of_twin = ["a twin"] if record.via == "twin" else []
    return ", ".join(filter(None, [*parts, *of_twin]))


def _nothing(after: After, own: Record) -> RequestError:
    if after.of_project:
        return RequestError(
            f"{own.name} depends on {after.job}, which was not submitted to {own.site}",
            f"`slurmgen submit {own.name} --all` submits both; --after JOB waits for another job, and "
            "--after none for no job.",
        )
    what = "" if after.job == LAST else f" called {after.job!r}"
    return RequestError(
        f"no job{what} was submitted from this machine, so that none can be waited for",
        "A job is named by its id, by its name, or as `last`; `slurmgen status` lists yours.",
    )


def needed(transport: Transport, dependencies: Sequence[Dependency]) -> tuple[Dependency, ...]:
    """The dependencies that are still to be waited for: Slurm forgets jobs that have ended.

    Raises:
        NeverMet: a job ended in another way, or Slurm no longer knows how.
        CommandFailed: Slurm did not reply.
    """
    if not dependencies:
        return ()
    reports = {report.job: report for report in _known(transport, [one.job for one in dependencies])}
    return tuple(one for one in dependencies if not _is_over(one, reports[one.job]))


def _known(
    transport: Transport, jobs: Sequence[Job], sleep: Callable[[float], None] = time.sleep
) -> list[Report]:
    """The reports of jobs, once accounting has all of those that ended.

    Raises:
        CommandFailed: the state of one is still not known, and its id may be another job's by now.
    """
    for pause in (*_PAUSES, None):
        reports = query_site(transport, jobs)
        unknown = [report for report in reports if report.state == UNKNOWN and report.states]
        if not unknown or pause is None:
            break
        sleep(pause)
    if unknown:
        first = unknown[0]
        raise CommandFailed(f"the state of job {first.job.id} is not known: {first.error}", "Try again.")
    return reports


def _is_over(dependency: Dependency, report: Report) -> bool:
    if not report.ended:
        return False
    if dependency.type == "any" and (report.state != GONE or dependency.job.record):
        return True
    if report.state == GONE:
        raise NeverMet(
            f"Slurm does not know job {dependency.name} any more, or never did: how it ended is not known",
            f"Check its id; --after any:{dependency.job.id} or --after none starts the job all the same.",
        )
    if is_met(dependency.type, report.state):
        return True
    raise NeverMet(
        f"the job would never start: it {dependency.text.replace('starts when', 'waits until')}, "
        f"which is {report.state}",
        f"Submit that job again first, or wait for its end in any way with --after any:{dependency.job.id}.",
    )
