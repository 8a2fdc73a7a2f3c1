"""`slurmgen wait`: wait until jobs end, and exit as they did."""

from math import isnan
from typing import TYPE_CHECKING, Any

import click

from slurmgen.cli.help import Command
from slurmgen.cli.job_output import print_jobs, tell_one
from slurmgen.cli.route_options import find_jobs, jobs_options, reach

if TYPE_CHECKING:
    from slurmgen.jobs.status import Answer

TIME_OVER = 124
"Exit code where --timeout ended it, as timeout(1) has it."


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
    job_ids: tuple[str, ...], site: str | None, as_json: bool, timeout: float | None, **said: Any
) -> int:
    """Wait until jobs have ended, and exit with their exit code.

    ID is a job id, ID_TASK in an array, a job name, or `last`. Of several jobs, the first exit code that is
    not 0 counts. It is 128 + N if signal N ended the job: 143 at its time limit or if it was cancelled, 137
    if it was out of memory. It is 3 if Slurm no longer knows the job, and 124 if --timeout expired.
    """
    from slurmgen.jobs.status import remember
    from slurmgen.jobs.wait import wait
    from slurmgen.text import visible

    if timeout is not None and isnan(timeout):
        raise click.BadParameter("nan is not a number of seconds.", param_hint="--timeout")
    jobs = find_jobs(job_ids, site, **said)
    answers: dict[object, Answer] = {}

    def ended(answer: "Answer") -> None:
        answers[answer.named] = answer
        remember([answer])
        if not as_json:
            tell_one(answer)

    left = wait(jobs, reach, lambda text: click.echo(visible(text), err=True), ended, timeout)
    if as_json:
        reports = [answers[one].report for one in jobs if one in answers]
        print_jobs(reports, several=len(job_ids) > 1 or not reports)
    for one in left:
        click.echo(f"job {one.job} has not ended after {timeout:g} s", err=True)
    codes = [answers[one].report.code if one in answers else TIME_OVER for one in jobs]
    return next(filter(None, codes), 0)
