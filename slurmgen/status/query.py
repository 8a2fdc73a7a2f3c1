"""Query the states of jobs, each site once, and remember how they ended."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from msgspec import structs

from slurmgen.errors import CommandFailed, ConfigError, RemoteError, SlurmgenError, TwinError
from slurmgen.ledger.ledger import Ledger, Record, to_text
from slurmgen.ledger.races import Races
from slurmgen.remote.transport import COMMAND_TIMEOUT, Transport
from slurmgen.slurm import commands
from slurmgen.slurm.replies import ENDED, GONE, JobState
from slurmgen.status.evidence import Piece
from slurmgen.status.failure import Why, is_not_found, why, with_logged_code, with_lost_environment
from slurmgen.status.failure_patterns import RUN_AGAIN, STOP_EARLIER
from slurmgen.status.job import (
    Borrow,
    Job,
    LastKnown,
    group_by_route,
    recorded_logs,
    states_text,
    tasks_of,
    with_final,
)
from slurmgen.status.logs import ends
from slurmgen.status.nodes import remember, with_bad_nodes
from slurmgen.status.report import Report, Winner
from slurmgen.status.segments import Requeued, decisive, is_unread, requeued, run_state, why_unfinished
from slurmgen.status.slurm import UNKNOWN, call, outcome, query_states


def with_winners(reports: Iterable[Report]) -> list[Report]:
    """The reports; one of a job that lost a race names the job that won it."""
    reports = list(reports)
    in_group = any(report.job.record and report.job.record.part_of for report in reports)
    winners = Races().winners() if in_group else {}
    return [_with_winner(report, winners) for report in reports]


def _with_winner(report: Report, winners: Mapping[str, Record]) -> Report:
    record = report.job.record
    won = winners.get(record.part_of) if record else None
    if won is None or record is None or won.key == record.key:
        return report
    return structs.replace(report, lost_to=Winner(id=won.id, site=won.site))


_REMOVE = 'for folder do rm -rf -- "$folder/.slurmgen"; done'


def remove_secrets(transport: Transport, jobs: Iterable[Job]) -> None:
    """Remove the secrets of jobs that never run again; if that fails, the next query or prune does it."""
    records = (job.record for job in jobs if job.is_recorded)
    if folders := [record.folder for record in records if record and record.asked("secrets")]:
        with suppress(SlurmgenError):
            transport.run(["sh", "-c", _REMOVE, "slurmgen", *folders], timeout=COMMAND_TIMEOUT)


FAILURES = ENDED - {"COMPLETED"}
_NOT_YET_LISTED = "it is new, and no reply of Slurm has it yet; try again in a minute"


def query(jobs: Sequence[Job], connect: Borrow, *, lenient: bool = False) -> list[Report]:
    """Query jobs, report in their order, and keep in the ledger how they ended.

    A site that is not reached does not hide the others.

    Raises:
        SlurmgenError: all jobs are at one site, it was not reached, and the ledger has the final state of
            none; never if `lenient`.
    """
    groups = group_by_route(jobs)
    reports: dict[Job, Report] = {}
    for route, group in groups.items():
        try:
            with connect(route) as transport:
                replies = query_and_save(transport, group, with_requeues=True)
        except SlurmgenError as error:
            if len(groups) == 1 and not lenient and not any(job.final for job in group):
                raise
            replies = [unreached(job, error) for job in group]
        reports |= {report.job: report for report in replies}
    return with_winners(reports[job] for job in jobs)


def query_and_save(
    transport: Transport, jobs: Sequence[Job], *, explain: bool = True, with_requeues: bool = False
) -> list[Report]:
    """`query_site`, which also keeps in the ledger how the jobs ended."""
    reports = query_site(transport, jobs, explain=explain, with_requeues=with_requeues)
    save_final_states(reports)
    return reports


def query_site(
    transport: Transport,
    jobs: Sequence[Job],
    *,
    explain: bool = True,
    with_requeues: bool = False,
    known: Mapping[Job, Sequence[JobState]] | None = None,
) -> list[Report]:
    """Query the jobs of one site.

    Args:
        explain: read the ends of the logs of those that failed, not only of those in segments.
        with_requeues: read also those of other jobs that may have been requeued.
        known: what an earlier query reported; for other jobs, the ends in the ledger.

    Raises:
        CommandFailed: Slurm did not reply.
    """
    before: dict[Job, Sequence[JobState]] = {job: job.final for job in jobs if job.final}
    before |= {job: () for job in jobs if job.last_known and job.last_known.state == GONE}
    before |= known or {}
    replies = query_states(
        transport, [job.id for job in jobs], {job.id: tuple(states) for job, states in before.items()}
    )
    found = {job: with_final(replies[job.id], job.final) for job in jobs}
    to_read = {job: states for job, (states, _) in found.items() if explain or job.segments}
    logs = _log_ends(transport, to_read, with_requeues)
    reports = []
    for job in jobs:
        (states, remembered), log = found[job], logs.get(job, [])
        failed = _failed(job, states)
        states = tuple(with_logged_code(state, log) if state is failed else state for state in states)
        reason = _reason(transport, job, _failed(job, states), log) if explain else None
        last = requeued("\n".join(piece.text for piece in log))
        reports.append(make_report(job, states, remembered, reason, last))
    remove_unneeded_secrets(transport, reports)
    return with_bad_nodes(transport, reports) if explain else reports


def end_of(transport: Transport, job: Job, states: Sequence[JobState]) -> Report:
    """Report how a job ended that was followed, keep that in the ledger, and remove its secrets.

    Args:
        states: Slurm's reply. Of a job in segments it is not enough: the log says whether the run finished.

    Raises:
        RemoteError: Slurm did not reply, or the log of a job in segments was not read.
    """
    if job.segments:
        return query_and_save(transport, [job])[0]
    report = make_report(job, states)
    with suppress(RemoteError):  # another connection may have replaced this one
        (report,) = with_bad_nodes(transport, [report])
    remove_unneeded_secrets(transport, [report])
    save_final_states([report])
    return report


def remove_unneeded_secrets(transport: Transport, reports: Iterable[Report]) -> None:
    """Remove the secrets of the jobs that have ended and never run again."""
    remove_secrets(transport, (report.job for report in reports if _final(report)))


def _final(report: Report) -> str:
    """The final states for the ledger; empty if it has no record of the job, or the job may run again.

    Empty too if they do not say how a run in segments ended.
    """
    is_recorded = report.states and report.job.is_recorded
    if not is_recorded or (report.job.segments and is_unread(report.states, report.requeued)):
        return ""
    return states_text(report.states, tasks_of(report.job.record))


def _as_run(report: Report) -> Report:
    """Report a job in segments as one run; leave other reports unchanged."""
    if not report.job.segments or not report.states:
        return report
    state = run_state(report.states, report.requeued)
    failed = report.ended and state != "COMPLETED"
    unfinished = why_unfinished(report.job.id.number, state, report.requeued, report.states)
    reason = (unfinished or report.why) if failed else None
    return structs.replace(report, state=state, why=reason)


def make_report(
    job: Job,
    states: Sequence[JobState],
    remembered: str = "",
    reason: Why | None = None,
    requeued: Requeued | None = None,
) -> Report:
    """Report what Slurm replied, together with what the ledger knows.

    Args:
        remembered: why the states come from the ledger, if they do.
        reason: why the job failed; default: the reason that the ledger keeps.
        requeued: its last unfinished run; default: the one that the ledger keeps.
    """
    used_again = next((state.reason for state in states if state.state == GONE), "")
    states = [state for state in states if state.state != GONE]
    if reason is None and (not states or any(state.state in FAILURES for state in states)):
        reason = job.why
    if not states and job.is_new and not used_again:
        return Report(job=job, state=UNKNOWN, why=reason, error=_NOT_YET_LISTED)
    report = Report(
        job=job,
        state=outcome(states),
        states=tuple(states),
        why=_advised(job, reason),
        requeued=requeued or job.requeued,
        remembered=remembered,
    )
    report = _as_run(report)
    error = report.main.reason if report.state == UNKNOWN else used_again
    return structs.replace(report, error=error)


def _advised(job: Job, reason: Why | None) -> Why | None:
    """The reason, without the advice to use --requeue for a job that has used it."""
    if reason is None or reason.todo != RUN_AGAIN or not job.may_requeue:
        return reason
    return structs.replace(reason, todo=STOP_EARLIER)


def recall(job: Job, remembered: str) -> Report | None:
    """The report of a job whose final state is in the ledger; `remembered` is why Slurm is not queried."""
    if not job.final:
        return None
    failed = _failed(job, job.final)
    return make_report(job, job.final, remembered, why(failed, seen=job.why) if failed else None)


def unreached(job: Job, error: SlurmgenError) -> Report:
    """The report of a job whose site was not reached; a job on a twin that is down is gone with it."""
    message = f"not reached: {error.fact}"
    state = GONE if isinstance(error, TwinError) else UNKNOWN
    return recall(job, message) or Report(job=job, state=state, error=message)


def save_final_states(reports: Iterable[Report]) -> None:
    """Keep in the ledger how jobs ended and why they failed; clear it for a job that runs again.

    The nodes that preflights found bad are remembered too.
    """
    reports = list(reports)
    remember(reports)
    seen = {
        report.job.record: (
            _final(report),
            to_text(report.why),
            to_text(report.requeued or report.job.requeued),
        )
        for report in reports
        if report.states and report.job.is_recorded
    }
    changed = {
        record: end
        for record, end in seen.items()
        if record and end != (record.final, record.why, record.requeued)
    }
    unended = _last_states(report for report in reports if report.job.is_recorded)
    if changed or unended:
        with suppress(ConfigError):  # the next query finds them again
            Ledger().save_final_states(changed, unended)


def _last_states(reports: Iterable[Report]) -> dict[Record, str]:
    """The states to keep of jobs without a final one, for when their site is not reached or lists nothing."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    known = [(report.job, LastKnown(report.state, at)) for report in reports if not _final(report)]
    return {
        job.record: to_text(last)
        for job, last in known
        if job.record and last.state != UNKNOWN and last.replaces(job.last_known)
    }


def _log_ends(
    transport: Transport, states_of: Mapping[Job, Sequence[JobState]], with_requeues: bool
) -> dict[Job, list[Piece]]:
    """The ends of the logs of jobs that failed or may have been requeued; one command reads them all."""
    logs: dict[Job, tuple[str, ...]] = {}
    for job, states in states_of.items():
        state = _state_to_read(
            job, states, with_requeues=(with_requeues and job.may_requeue) or job.segments > 0
        )
        if job.record and state:
            logs[job] = recorded_logs(job.record, state.id)
    paths = list(dict.fromkeys(path for files in logs.values() for path in files))
    read = dict(zip(paths, ends(transport, paths), strict=True)) if paths else {}
    return {job: [read[path] for path in files] for job, files in logs.items()}


def _state_to_read(job: Job, states: Sequence[JobState], *, with_requeues: bool) -> JobState | None:
    """The state of the job, or of its task, whose log explains something."""
    failed = _failed(job, states)
    if not with_requeues:
        return failed if failed and failed.state == "FAILED" else None
    return failed or next((state for state in states if not state.ended), next(iter(states), None))


def _failed(job: Job, states: Sequence[JobState]) -> JobState | None:
    if job.segments:
        return decisive(states)
    failed = [state for state in states if state.state in FAILURES]
    return next((state for state in failed if state.state != "CANCELLED"), next(iter(failed), None))


def _reason(transport: Transport, job: Job, failed: JobState | None, log: Sequence[Piece]) -> Why | None:
    """Why a job failed; that a program was not found may come from the environment of the submission."""
    reason = why(failed, log, job.why) if failed else None
    if reason is None or not is_not_found(reason):
        return reason
    if job.why and job.why.what.startswith(reason.what):
        return job.why
    try:
        return with_lost_environment(reason, call(transport, commands.submit_line(job.id)).out)
    except CommandFailed:  # without accounting it is not known
        return reason
