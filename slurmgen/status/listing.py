"""Reports of the jobs of the ledger: what needs no query, and why each job is as it is."""

from collections.abc import Iterator, Sequence

from slurmgen.ledger.ledger import Record
from slurmgen.status.job import Job
from slurmgen.status.query import make_report, recall, with_winners
from slurmgen.status.report import Report
from slurmgen.status.slurm import UNKNOWN
from slurmgen.status.sweep import cause, is_sweep, tally

UNSETTLED = (
    "not known to have become a job: repeat its command, which finds the job or submits it, "
    "or give it up with `slurmgen forget {}`"
)
ENDED = "it had ended at the last query"


def without_query(jobs: Sequence[Job]) -> dict[Job, Report]:
    """The reports of the jobs that Slurm need not be queried for.

    Their ends are in the ledger, or their submissions are unsettled.
    """
    reports: dict[Job, Report] = {}
    for job in jobs:
        if job.record and job.record.pending:
            reports[job] = _unsettled(job, job.record)
        elif not job.needs_query:
            reports[job] = recall(job, ENDED) or make_report(job, ())
    return dict(zip(reports, with_winners(reports.values()), strict=True))


def reasons(report: Report) -> Iterator[str]:
    """Why a job waits, failed or is unknown, and the tasks of a sweep by state; a line for each."""
    record = report.job.record
    if is_sweep(report) and report.states:
        yield tally(report)
    known = f"last known: {report.last_known.text()}" if report.last_known else ""
    yield from filter(None, [report.lost, known, report.waits or report.reason, cause(report)])
    if record and record.pending:
        yield report.error
        yield from (f"{record.directory}$ {command}" for command in [record.command] if command)


def _unsettled(job: Job, record: Record) -> Report:
    return Report(job=job, state=UNKNOWN, error=UNSETTLED.format(record.key))
