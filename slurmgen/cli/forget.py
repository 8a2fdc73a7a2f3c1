"""`slurmgen forget`: give up a submission that may not have become a job."""

from typing import TYPE_CHECKING, Any

import click

from slurmgen.cli.completion import complete_submissions
from slurmgen.cli.help import Command
from slurmgen.cli.job_output import print_report, say, warn
from slurmgen.cli.route_options import connect, route_options
from slurmgen.cli.site_option import site_option
from slurmgen.errors import SlurmgenError
from slurmgen.text import visible

if TYPE_CHECKING:
    from slurmgen.jobs.ledger import Record
    from slurmgen.remote.route import Route

_FORCE_HINT = "Nothing was changed. --force removes the entry from your records, although a job may exist."


@click.command(
    "forget",
    cls=Command,
    examples={
        "slurmgen forget train": "Forget a submission of the job train that failed",
        "slurmgen forget train --cancel": "The same, and cancel the job if there is one",
    },
)
@click.argument("submission", metavar="NAME|KEY", shell_complete=complete_submissions)
@site_option
@route_options
@click.option("--cancel", is_flag=True, help="Cancel the job if there is one.")
@click.option(
    "--force",
    is_flag=True,
    help="Remove the entry even if the remote host is not reached; a job may exist.",
)
def command(submission: str, site: str | None, cancel: bool, force: bool, **options: Any) -> None:
    """Forget a submission that may not have become a job.

    Name it by its job or by its key, which `slurmgen status` shows. If the remote host has a job for it, the
    job is recorded. Otherwise the key is closed on the remote host, so that no job can follow, and the entry
    is removed. Exits with 3 if neither is certain; then nothing is changed.
    """
    from slurmgen.jobs.ledger import Ledger
    from slurmgen.jobs.lookup import find_submission, recorded_route

    entry = find_submission(submission, site)
    route = recorded_route(entry, options)
    try:
        settled = _settle(entry, route)
    except SlurmgenError as error:
        if not force:
            raise type(error)(error.fact, f"{error.hint} {_FORCE_HINT}".strip()) from None
        Ledger().drop(entry.key)
        warn(f"{error.fact}. The entry was removed, but a job may exist: look in the queue of {entry.site}.")
    else:
        _print_outcome(entry, settled)
        if settled and cancel:
            _cancel(settled, route)


def _settle(entry: "Record", route: "Route") -> "Record | None":
    from slurmgen.jobs.forget import settle
    from slurmgen.jobs.ledger import Ledger

    with connect(route) as transport:
        return settle(transport, entry, Ledger())


def _print_outcome(entry: "Record", settled: "Record | None") -> None:
    outcome = f"became job {settled.id}: recorded" if settled else "has no job and can have none: removed"
    click.echo(visible(f"submission {entry.key} ({entry.name}) {outcome}"))


def _cancel(settled: "Record", route: "Route") -> None:
    from slurmgen.jobs.cancel import cancel_jobs
    from slurmgen.jobs.job import Job
    from slurmgen.jobs.status import save_final_states

    with connect(route) as transport:
        reports = cancel_jobs(transport, [Job.of(settled, route)], say)
    save_final_states(reports)
    for report in reports:
        print_report(report)
