"""`slurmgen cancel`: cancel jobs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from slurmgen.cli.job_output import print_reports
from slurmgen.cli.route_options import connect, find_jobs, jobs_options

if TYPE_CHECKING:
    from slurmgen.jobs.job import Job
    from slurmgen.jobs.report import Report
    from slurmgen.remote.transport import Transport

UNKNOWN_JOB = 3
"Exit code if Slurm does not know a job."


@click.command()
@jobs_options
def command(job_ids: tuple[str, ...], site: str | None, as_json: bool, **options: Any) -> int:
    """Cancel jobs, and show their state.

    ID is a job's id, ID_TASK in an array, a job's name, or `last`. A job that has ended is left as it is.
    Exit code 3 if Slurm does not know a job.
    """
    from slurmgen.jobs.job import group_by_route
    from slurmgen.jobs.status import save_final_states

    jobs = find_jobs(job_ids, site, **options)
    reports: list[Report] = []
    for route, group in group_by_route(jobs).items():
        with connect(route) as transport:
            reports += cancel_jobs(transport, group)
    save_final_states(reports)
    print_reports(reports, as_json=as_json, several=len(job_ids) > 1)
    return UNKNOWN_JOB if any(not report.states for report in reports) else 0


def cancel_jobs(transport: "Transport", jobs: "Sequence[Job]") -> "list[Report]":
    """Cancel the jobs of one site that have not ended, and report the state of all."""
    from slurmgen.jobs.slurm_client import cancel
    from slurmgen.jobs.status import query_site

    before = query_site(transport, jobs, explain=False)
    active = [report.job for report in before if report.states and not report.ended]
    if active:
        cancel(transport, *(job.id for job in active))
    _print_progress(before, active)
    after = query_site(transport, active, explain=False) if active else []
    by_job = {report.job: report for report in after}
    return [_after(report, by_job.get(report.job, report)) for report in before]


def _print_progress(before: "Sequence[Report]", active: "Sequence[Job]") -> None:
    for job in active:
        click.echo(f"asked Slurm to cancel job {job.id}", err=True)
    for report in before:
        if report.states and report.job not in active:
            click.echo(f"job {report.job.id} has ended already", err=True)


def _after(before: "Report", after: "Report") -> "Report":
    """The report after the cancellation. Slurm keeps no record of an array task that never started."""
    from msgspec import structs

    from slurmgen.jobs.status import make_report

    if after.states or not before.states:
        return after
    return make_report(
        before.job,
        [state if state.ended else structs.replace(state, state="CANCELLED") for state in before.states],
    )
