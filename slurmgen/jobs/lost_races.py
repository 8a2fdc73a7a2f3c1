"""Which jobs lost a race of `submit --first`, and to which one."""

from collections.abc import Iterable, Mapping

from msgspec import structs

from slurmgen.jobs.ledger import Record
from slurmgen.jobs.races import Races
from slurmgen.jobs.report import Report
from slurmgen.jobs.report_object import Winner


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
