"""`slurmgen forget`: give up a submission that may not have become a job."""

from typing import TYPE_CHECKING, Any, Literal

import click

from slurmgen.cli.options import complete_submissions, connect, json_option, route_options, site_option
from slurmgen.cli.output import Command, print_json, print_report, say, warn
from slurmgen.errors import SlurmgenError
from slurmgen.text import visible

if TYPE_CHECKING:
    from slurmgen.cli.job_objects import Forgotten
    from slurmgen.ledger.ledger import Record
    from slurmgen.remote.route import Route
    from slurmgen.status.report import Report

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
@json_option
def command(
    submission: str, site: str | None, cancel: bool, force: bool, as_json: bool, **options: Any
) -> None:
    """Forget a submission that may not have become a job.

    Name it by its job or by its key, which `slurmgen status` shows. If the remote host has a job for it, the
    job is recorded. Otherwise the key is closed on the remote host, so that no job can follow, and the entry
    is removed. Exits with 3 if neither is certain; then nothing is changed.
    """
    from slurmgen.ledger.ledger import Ledger
    from slurmgen.status.lookup import find_submission, recorded_route

    entry = find_submission(submission, site)
    route = recorded_route(entry, options)
    try:
        settled = _settle(entry, route)
    except SlurmgenError as error:
        if not force:
            raise type(error)(error.fact, f"{error.hint} {_FORCE_HINT}".strip()) from None
        Ledger().drop(entry.key)
        warn(f"{error.fact}. The entry was removed, but a job may exist: look in the queue of {entry.site}.")
        if as_json:
            print_json(_forgotten(entry, "forced"))
    else:
        if not as_json:
            _print_outcome(entry, settled)
        cancelled = _cancel(settled, route) if settled and cancel else None
        if as_json:
            print_json(_forgotten(entry, "recorded" if settled else "removed", settled, cancelled))
        elif cancelled:
            print_report(cancelled)


def _settle(entry: "Record", route: "Route") -> "Record | None":
    from slurmgen.ledger.ledger import Ledger
    from slurmgen.submit.cancel import settle

    with connect(route) as transport:
        return settle(transport, entry, Ledger())


def _print_outcome(entry: "Record", settled: "Record | None") -> None:
    outcome = f"became job {settled.id}: recorded" if settled else "has no job and can have none: removed"
    click.echo(visible(f"submission {entry.key} ({entry.name}) {outcome}"))


def _forgotten(
    entry: "Record",
    outcome: Literal["recorded", "removed", "forced"],
    settled: "Record | None" = None,
    cancelled: "Report | None" = None,
) -> "Forgotten":
    from slurmgen.cli.job_objects import Forgotten
    from slurmgen.status.report import to_json

    return Forgotten(
        key=entry.key,
        name=entry.name,
        site=entry.site,
        outcome=outcome,
        job=settled.id if settled else None,
        cancelled=to_json(cancelled) if cancelled else None,
    )


def _cancel(settled: "Record", route: "Route") -> "Report":
    from slurmgen.status.job import Job
    from slurmgen.status.query import save_final_states
    from slurmgen.submit.cancel import cancel_jobs

    with connect(route) as transport:
        reports = cancel_jobs(transport, [Job.of(settled, route)], say)
    save_final_states(reports)
    return reports[0]
