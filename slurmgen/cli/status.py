"""`slurmgen status` and `slurmgen wait`: the state of jobs, now or at their end."""

import os
import shlex
import shutil
import subprocess
import sys
from math import isnan
from typing import Any

import click

from slurmgen.cli.options import (
    complete_jobs,
    connect,
    find_jobs,
    jobs_options,
    json_option,
    route_options,
    site_option,
)
from slurmgen.cli.output import (
    Command,
    color_option,
    console,
    exit_code,
    print_report,
    print_report_objects,
    print_reports,
)
from slurmgen.cli.tables import print_status_table, print_tasks
from slurmgen.errors import RequestError, SlurmgenError
from slurmgen.ledger.races import Races
from slurmgen.status.job import Job
from slurmgen.status.listing import without_query
from slurmgen.status.lookup import recent_records, recorded_route
from slurmgen.status.query import query, save_final_states, unreached
from slurmgen.status.report import Report
from slurmgen.status.sweep import is_sweep, joined
from slurmgen.status.wait import wait
from slurmgen.text import visible

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
def status_command(
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
    known = without_query(jobs)  # only those whose final state is not in the ledger are queried
    queried = query([job for job in jobs if job not in known], connect, lenient=True)
    known |= {report.job: report for report in queried}
    reports = joined([known[job] for job in jobs])
    if as_json:
        print_report_objects(reports, several=True)
    else:
        print_status_table(reports, console(color))
    return exit_code([report for report in reports if report.job.id.number])


TIMED_OUT = 124
"Exit code at the end of --timeout, as of timeout(1)."


def _argv(_ctx: click.Context, _param: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a command: {error}.") from None
    if not words:
        raise click.BadParameter("it is empty.")
    return words


@click.command(
    "wait",
    cls=Command,
    examples={
        "slurmgen wait last": "Wait until the last job has ended",
        "slurmgen wait train --timeout 3600": "Wait for the job train, but at most an hour",
        "slurmgen wait last --then 'slurmgen fetch last'": "Fetch its results when it has ended",
    },
)
@jobs_options
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Stop waiting after this time, with exit code 124; default: no limit.",
)
@click.option(
    "--then",
    callback=_argv,
    metavar="CMD",
    help="Run this command here when all jobs have ended, without a shell; its words are split as by one.",
)
def wait_command(
    job_ids: tuple[str, ...],
    site: str | None,
    as_json: bool,
    timeout: float | None,
    then: tuple[str, ...] | None,
    **options: Any,
) -> int:
    """Wait until jobs have ended, and exit with their exit code.

    ID is a job id, ID_TASK in an array, a job name, or `last`. Of several jobs, the first exit code that is
    not 0 counts; a job that lost the race of --first to another one does not count. The code is 128 + N if
    signal N ended the job: 143 at its time limit or if it was cancelled, 137 if it was out of memory. It is 3
    if Slurm no longer knows the job, and 124 if --timeout expired. The command of --then runs once, whether
    the jobs succeeded or not, but not after --timeout; its exit code counts if that of the jobs is 0.
    SLURMGEN_JOB_ID, SLURMGEN_JOB_NAME, SLURMGEN_STATE and SLURMGEN_EXIT_CODE describe the jobs, separated by
    blanks.
    """
    if timeout is not None and isnan(timeout):
        raise click.BadParameter("nan is not a number of seconds.", param_hint="--timeout")
    if then and shutil.which(then[0]) is None:
        raise click.BadParameter(f"there is no program {then[0]!r} on this machine.", param_hint="--then")
    jobs = find_jobs(job_ids, site, **options)
    reports: dict[Job, Report] = {}

    def on_end(report: Report) -> None:
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
    lost = Races().losers([job.record for job in jobs if job.record])
    counting = [job for job in jobs if job.record not in lost]
    codes = [reports[job].code if job in reports else TIMED_OUT for job in counting]
    if then and not left:
        codes.append(_run(then, ended, err=as_json))
    return next(filter(None, codes), 0)


def _run(argv: tuple[str, ...], reports: list[Report], *, err: bool) -> int:
    """Run the command of --then and return its exit code; with `err`, its output goes to stderr."""
    described = {
        "SLURMGEN_JOB_ID": [report.job.id.number for report in reports],
        "SLURMGEN_JOB_NAME": [report.name for report in reports],
        "SLURMGEN_STATE": [report.state for report in reports],
        "SLURMGEN_EXIT_CODE": [str(report.code) for report in reports],
    }
    variables = {name: visible(" ".join(texts)) for name, texts in described.items()}
    sys.stdout.flush()
    try:
        status = subprocess.run(
            argv, env={**os.environ, **variables}, stdout=sys.stderr if err else None, check=False
        ).returncode
    except OSError as error:
        raise RequestError(
            f"--then {argv[0]}: {error.strerror}", "Check the program; the jobs have ended."
        ) from None
    return status if status >= 0 else 128 - status
