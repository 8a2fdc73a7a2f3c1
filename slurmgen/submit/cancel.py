"""Cancel jobs and races, and give up submissions that may not have become a job."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import structs

from slurmgen.errors import SlurmgenError
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.ledger.races import Race, Races, close_gate
from slurmgen.remote.transport import Transport
from slurmgen.status.job import Borrow, Job, group_by_route
from slurmgen.status.query import make_report, query_site, remove_secrets
from slurmgen.status.report import Report
from slurmgen.status.slurm import UNKNOWN, cancel
from slurmgen.submit.exactly_once import TIMEOUTS, Timeouts, close

CANCELLED = "CANCELLED"
GIVEN_UP = "it has no job, and can have none"
Notify = Callable[[str], None]


def settle(
    transport: Transport, record: Record, ledger: Ledger, timeouts: Timeouts = TIMEOUTS
) -> Record | None:
    """Record the job of a pending entry; if it has none, close its key, drop the entry and return None.

    Raises:
        Unresolved: neither is certain; nothing was changed.
        ConfigError: the ledger cannot be written.
    """
    submitted = close(transport, record, timeouts)
    if submitted is None:
        ledger.drop(record.key)
        return None
    settled = submitted.settled(record)
    ledger.settle(settled)
    return settled


def cancel_jobs(transport: Transport, jobs: Sequence[Job], notify: Notify) -> list[Report]:
    """Cancel the jobs that have not ended, and report the state of all.

    Args:
        notify: receives a line for each job: whether it is cancelled or has ended already.

    Raises:
        CommandFailed: Slurm did not reply, or refused.
    """
    before = query_site(transport, jobs, explain=False)
    active = [report.job for report in before if _may_run(report)]
    if active:
        cancel(transport, *(job.id for job in active))
        remove_secrets(transport, active)
    _notify(before, active, notify)
    after = query_site(transport, active, explain=False) if active else []
    by_job = {report.job: report for report in after}
    return [_after(report, by_job.get(report.job, report)) for report in before]


def _may_run(report: Report) -> bool:
    """Whether there is something to cancel: also a new job that Slurm does not list yet."""
    return _is_unlisted(report) or any(not state.ended and state.state != UNKNOWN for state in report.states)


def _is_unlisted(report: Report) -> bool:
    return not report.states and report.state == UNKNOWN and report.job.is_new


def cancel_all(jobs: Sequence[Job], connect: Borrow, notify: Notify) -> list[Report]:
    """Cancel jobs of any sites; see `cancel_jobs`. A race ends if all its jobs are among them.

    Args:
        jobs: the jobs. The submission of a pending one is given up.
        notify: see `cancel_jobs`.

    Returns:
        The reports, in the order of the jobs.

    Raises:
        SlurmgenError: a site was not reached, or Slurm did not reply or refused. The jobs at the other sites
            are cancelled all the same.
    """
    stop_races(jobs, connect)
    reports: dict[Job, Report] = {}
    errors: list[SlurmgenError] = []
    for route, group in group_by_route(jobs).items():
        try:
            with connect(route) as transport:
                reports |= _cancel_at(transport, group, notify)
        except SlurmgenError as error:
            errors.append(error)
    if errors:
        for further in errors[1:]:
            notify(str(further))
        raise errors[0]
    return [reports[job] for job in jobs]


def _cancel_at(transport: Transport, jobs: Sequence[Job], notify: Notify) -> dict[Job, Report]:
    settled = {job: _settled(transport, job) for job in jobs}
    found = {job: one for job, one in settled.items() if one}
    cancelled = cancel_jobs(transport, list(found.values()), notify) if found else []
    reports = dict(zip(found, cancelled, strict=True))
    given_up = [job for job in jobs if job not in found]
    for job in given_up:
        notify(f"nothing was submitted at {job.route.site}, and nothing will be")
    return reports | {job: Report(job=job, state=CANCELLED, error=GIVEN_UP) for job in given_up}


def _settled(transport: Transport, job: Job) -> Job | None:
    if job.record is None or not job.record.pending:
        return job
    record = settle(transport, job.record, Ledger())
    return Job.of(record, job.route) if record else None


def _notify(before: Sequence[Report], active: Sequence[Job], notify: Notify) -> None:
    for job in active:
        notify(f"asked Slurm to cancel job {job.id}")
    for report in before:
        if report.states and report.ended:
            notify(f"job {report.job.id} has ended already")


def _after(before: Report, after: Report) -> Report:
    """The report after the cancellation. Slurm keeps no record of an array task that never started."""
    if after.states or (after.error and not _is_unlisted(after)) or not before.states:
        return after
    if any(not state.ended and state.state != "PENDING" for state in before.states):
        return after
    states = [state if state.ended else structs.replace(state, state=CANCELLED) for state in before.states]
    return make_report(before.job, states)


def stop_races(jobs: Sequence[Job], connect: Borrow) -> None:
    """End the unfinished races of which these are all jobs, before the jobs are cancelled.

    A client that still submits reads this from the ledger. If a job is chosen already, the race ends only if
    its gate can be closed; otherwise its program runs until the job is cancelled.

    Raises:
        RemoteError: the site of a chosen job was not reached.
    """
    races = Races()
    by_key = {job.record.key: job for job in jobs if job.record and job.record.part_of}
    for race in _races_of(races, by_key.values()):
        if not race.over and {entry.key for entry in races.entries(race)} <= by_key.keys():
            _stop(races, race, by_key, connect)


def _races_of(races: Races, jobs: Iterable[Job]) -> set[Race]:
    groups = {job.record.part_of for job in jobs if job.record}
    return {race for group in groups if (race := races.named(group))}


def _stop(races: Races, race: Race, jobs: Mapping[str, Job], connect: Borrow) -> None:
    """End a race; if a job is chosen, take the choice back first, unless its gate is open."""
    race = races.stop(race)
    job = jobs.get(race.chosen)
    if job is None or job.record is None:
        return
    with connect(job.route) as transport:
        is_closed = close_gate(transport, job.record.folder)
    if is_closed:  # a client may choose another job before the race is ended
        _stop(races, races.take_back(race), jobs, connect)
