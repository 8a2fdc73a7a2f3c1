"""`slurmgen wait`: wait until jobs end, and exit with their exit code."""

from math import isnan
from typing import TYPE_CHECKING, Any

import click

from slurmgen.cli.help import Command
from slurmgen.cli.job_output import print_report, print_report_objects
from slurmgen.cli.route_options import connect, find_jobs, jobs_options
from slurmgen.text import visible

if TYPE_CHECKING:
    from slurmgen.jobs.job import Job
    from slurmgen.jobs.report import Report

TIMED_OUT = 124
"Exit code at the end of --timeout, as of timeout(1)."


@click.command(
    "wait",
    cls=Command,
    examples={
        "slurmgen wait last": "Wait until the last job has ended",
        "slurmgen wait train --timeout 3600": "Wait for the job train, but at most an hour",
    },
)
@jobs_options
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Stop waiting after this time, with exit code 124; default: no limit.",
)
def command(
    job_ids: tuple[str, ...], site: str | None, as_json: bool, timeout: float | None, **options: Any
) -> int:
    """Wait until jobs have ended, and exit with their exit code.

    ID is a job id, ID_TASK in an array, a job name, or `last`. Of several jobs, the first exit code that is
    not 0 counts. It is 128 + N if signal N ended the job: 143 at its time limit or if it was cancelled, 137
    if it was out of memory. It is 3 if Slurm no longer knows the job, and 124 if --timeout expired.
    """
    from slurmgen.jobs.status import save_final_states
    from slurmgen.jobs.sweep_report import joined
    from slurmgen.jobs.wait import wait

    if timeout is not None and isnan(timeout):
        raise click.BadParameter("nan is not a number of seconds.", param_hint="--timeout")
    jobs = find_jobs(job_ids, site, **options)
    reports: dict[Job, Report] = {}

    def on_end(report: "Report") -> None:
        reports[report.job] = report
        save_final_states([report])
        if not as_json:
            print_report(report)

    left = wait(jobs, connect, lambda text: click.echo(visible(text), err=True), on_end, timeout)
    ended = joined([reports[job] for job in jobs if job in reports])
    if as_json:
        print_report_objects(ended, several=len(job_ids) > 1 or not ended)
    for job in left:
        click.echo(f"job {job.id} has not ended after {timeout:g} s", err=True)
    codes = [reports[job].code if job in reports else TIMED_OUT for job in jobs]
    return next(filter(None, codes), 0)
