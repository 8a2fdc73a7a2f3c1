"""`slurmgen status`: show the state of jobs, or list the jobs that were submitted from this machine."""

from collections.abc import Sequence
from typing import Any

import click

from slurmgen.cli.options import complete_jobs, connect, find_jobs, json_option, route_options, site_option
from slurmgen.cli.output import Command, color_option, console, exit_code, print_report_objects, print_reports
from slurmgen.cli.tables import print_status_table, print_tasks
from slurmgen.errors import SlurmgenError
from slurmgen.status.job import Job
from slurmgen.status.listing import without_query
from slurmgen.status.lookup import recent_records, recorded_route
from slurmgen.status.query import query, unreached
from slurmgen.status.report import Report
from slurmgen.status.sweep import is_sweep, joined

LIMIT = 20


@click.command(
    "status",
    cls=Command,
    examples={
        "slurmgen status": "List your last jobs",
        "slurmgen status last": "Show the job that was submitted last",
        "slurmgen status train --tasks": "Show the parameters and the state of each task of a sweep",
        "slurmgen status 1234567 --json": "Read the state of a job in a program",
    },
)
@click.argument("job_ids", metavar="[ID...]", nargs=-1, shell_complete=complete_jobs)
@site_option
@route_options
@click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    default=LIMIT,
    show_default=True,
    help="Without ID: list only the last N jobs.",
)
@click.option("--all", "everything", is_flag=True, help="Without ID: list all jobs.")
@click.option("--tasks", is_flag=True, help="Of a sweep: list the parameters and the state of each task.")
@color_option
@json_option
def command(
    job_ids: tuple[str, ...],
    site: str | None,
    limit: int,
    everything: bool,
    tasks: bool,
    color: str,
    as_json: bool,
    **options: Any,
) -> int:
    """Show the state of submitted jobs; without ID, list the last ones.

    ID is a job id, ID_TASK in an array, a job name, or `last`. Exits with 3 if the state of a job is unknown
    because its site was not reached.
    """
    if not job_ids:
        return _list(site, 0 if everything else limit, color, as_json, options)
    jobs = find_jobs(job_ids, site, **options)
    try:
        reports = joined(query(jobs, connect))
    except SlurmgenError as error:
        reports = joined([unreached(job, error) for job in jobs if job.last_known])
        if reports:
            print_reports(reports, as_json=as_json, several=len(job_ids) > 1)
        raise
    if tasks and not as_json:
        for report in reports:
            if is_sweep(report):
                print_tasks(report, color)
            else:
                print_reports([report], as_json=False, several=False, origins=True)
        return exit_code(reports)
    print_reports(reports, as_json=as_json, several=len(job_ids) > 1, origins=True)
    return exit_code(reports)


def _list(site: str | None, limit: int, color: str, as_json: bool, options: dict[str, Any]) -> int:
    records = recent_records(limit, site)
    if not records and not as_json:
        click.echo("no job was submitted from this machine yet", err=True)
        return 0
    jobs = [Job.of(record, recorded_route(record, options)) for record in records]
    reports = _reports(jobs)
    if as_json:
        print_report_objects(reports, several=True)
    else:
        print_status_table(reports, console(color))
    return exit_code([report for report in reports if report.job.id.number])


def _reports(jobs: Sequence[Job]) -> list[Report]:
    """The reports of jobs. Only those whose final state is not in the ledger are queried."""
    reports = without_query(jobs)
    queried = query([job for job in jobs if job not in reports], connect, lenient=True)
    reports |= {report.job: report for report in queried}
    return joined([reports[job] for job in jobs])
