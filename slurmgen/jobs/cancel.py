"""Cancel jobs, and report their state."""

from collections.abc import Callable, Sequence

from msgspec import structs

from slurmgen.jobs.job import Connect, Job, group_by_route
from slurmgen.jobs.report import Report
from slurmgen.jobs.secret_removal import remove_secrets
from slurmgen.jobs.slurm_client import cancel
from slurmgen.jobs.status import make_report, query_site
from slurmgen.remote.transport import Transport


def cancel_jobs(transport: Transport, jobs: Sequence[Job], notify: Callable[[str], None]) -> list[Report]:
    """Cancel the jobs that have not ended, and report the state of all.

    Args:
        transport: the connection to the site.
        jobs: jobs of that site.
        notify: receives a line for each job: whether it is cancelled or has ended already.

    Raises:
        CommandFailed: Slurm did not reply, or refused.
    """
    before = query_site(transport, jobs, explain=False)
    active = [report.job for report in before if report.states and not report.ended]
    if active:
        cancel(transport, *(job.id for job in active))
        remove_secrets(transport, active)
    _notify(before, active, notify)
    after = query_site(transport, active, explain=False) if active else []
    by_job = {report.job: report for report in after}
    return [_after(report, by_job.get(report.job, report)) for report in before]


def cancel_all(jobs: Sequence[Job], connect: Connect, notify: Callable[[str], None]) -> list[Report]:
    """Cancel jobs of any sites; see `cancel_jobs`.

    Args:
        jobs: the jobs.
        connect: makes the connection to each site.
        notify: see `cancel_jobs`.

    Raises:
        RemoteError: a site was not reached, or Slurm did not reply or refused.
    """
    reports: list[Report] = []
    for route, group in group_by_route(jobs).items():
        with connect(route) as transport:
            reports += cancel_jobs(transport, group, notify)
    return reports


def _notify(before: Sequence[Report], active: Sequence[Job], notify: Callable[[str], None]) -> None:
    for job in active:
        notify(f"asked Slurm to cancel job {job.id}")
    for report in before:
        if report.states and report.job not in active:
            notify(f"job {report.job.id} has ended already")


def _after(before: Report, after: Report) -> Report:
    """The report after the cancellation. Slurm keeps no record of an array task that never started."""
    if after.states or not before.states:
        return after
    states = [state if state.ended else structs.replace(state, state="CANCELLED") for state in before.states]
    return make_report(before.job, states)
