"""`slurmgen cancel`: cancel jobs."""

from typing import Any

import click

from slurmgen.cli.options import connect, find_jobs, jobs_options
from slurmgen.cli.output import Command, print_reports, say
from slurmgen.slurm.replies import GONE
from slurmgen.status.query import save_final_states
from slurmgen.status.slurm import UNKNOWN
from slurmgen.status.sweep import joined
from slurmgen.submit.cancel import cancel_all

UNKNOWN_JOB = 3
"Exit code if Slurm does not know a job."


@click.command(
    "cancel",
    cls=Command,
    examples={
        "slurmgen cancel 1234567": "Cancel a job",
        "slurmgen cancel last": "Cancel the job that was submitted last",
    },
)
@jobs_options
def command(job_ids: tuple[str, ...], site: str | None, as_json: bool, **options: Any) -> int:
    """Cancel jobs, and show their state.

    ID is a job id, ID_TASK in an array, a job name, or `last`. A job that has ended is left as it is. Exits
    with 3 if Slurm does not know a job.
    """
    jobs = find_jobs(job_ids, site, to_cancel=True, **options)
    reports = cancel_all(jobs, connect, say)
    save_final_states(reports)
    reports = joined(reports)
    print_reports(reports, as_json=as_json, several=len(job_ids) > 1)
    return UNKNOWN_JOB if any(report.state in (GONE, UNKNOWN) for report in reports) else 0
