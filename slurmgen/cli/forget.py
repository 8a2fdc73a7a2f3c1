"""`slurmgen forget`: give up a submission of which it is not known whether it became a job."""

from typing import TYPE_CHECKING, Any

import click

from slurmgen.cli.help import Command
from slurmgen.cli.job_output import tell_one, warn
from slurmgen.cli.route_options import reach, route_options, way_of
from slurmgen.cli.site_option import site_option

if TYPE_CHECKING:
    from slurmgen.jobs.ledger import Record
    from slurmgen.remote.route import Route

_FORCE_HINT = "Nothing was changed. --force removes the entry here, although a job may exist."


@click.command(
    "forget",
    cls=Command,
    examples={
        "slurmgen forget train": "Forget a submission of the job train that failed",
        "slurmgen forget train --cancel": "The same, and cancel the job if there is one",
    },
)
@click.argument("submission", metavar="NAME|KEY")
@site_option
@route_options
@click.option("--cancel", is_flag=True, help="Cancel the job if there is one.")
@click.option(
    "--force",
    is_flag=True,
    help="Remove the entry even if the remote host is not reached; a job may exist.",
)
def command(submission: str, site: str | None, cancel: bool, force: bool, **said: Any) -> None:
    """Forget a submission that may not have become a job.

    Name it by its job or by its key, which `slurmgen status` shows. If the remote host has a job for it, the
    job is recorded. Otherwise the key is closed on the remote host, so that no job can follow, and the entry
    is removed. Exits with 3 if neither is certain; then nothing is changed.
    """
    from slurmgen.errors import SlurmgenError
    from slurmgen.jobs.ledger import Ledger

    record = _find(submission, site)
    way = way_of(record, **said)
    try:
        settled = _settled(record, way)
    except SlurmgenError as error:
        if not force:
            raise type(error)(error.fact, f"{error.hint} {_FORCE_HINT}".strip()) from None
        Ledger().drop(record.key)
        warn(f"{error.fact}. The entry was removed, but a job may exist: look in the queue of {record.site}.")
    else:
        _print(record, settled)
        if settled and cancel:
            _cancel(settled, way)


def _find(submission: str, site: str | None) -> "Record":
    from slurmgen.errors import RequestError
    from slurmgen.jobs.ledger import Ledger

    found = Ledger().unsettled(submission, site)
    chosen = [one for one in found if one.key == submission] or found
    if not chosen:
        raise RequestError(
            f"there is no unsettled submission {submission!r}",
            "`slurmgen status` lists them with their keys.",
        )
    if len(chosen) > 1:
        keys = ", ".join(one.key for one in chosen)
        raise RequestError(
            f"there are {len(chosen)} unsettled submissions {submission!r}: {keys}", "Name a key."
        )
    return chosen[0]


def _settled(record: "Record", way: "Route") -> "Record | None":
    from slurmgen.jobs.forget import settle
    from slurmgen.jobs.ledger import Ledger

    with reach(way) as far:
        return settle(far, record, Ledger())


def _print(record: "Record", settled: "Record | None") -> None:
    from slurmgen.text import visible

    outcome = (
        f"became job {settled.id}: recorded" if settled else "has no job, and none can come of it: removed"
    )
    click.echo(visible(f"submission {record.key} ({record.name}) {outcome}"))


def _cancel(settled: "Record", way: "Route") -> None:
    from slurmgen.cli.cancel import cancel_jobs
    from slurmgen.jobs.status import Named, remember
    from slurmgen.slurm.commands import JobId

    with reach(way) as far:
        answers = cancel_jobs(far, [Named(JobId(settled.id, settled.cluster), way, settled)])
    remember(answers)
    for answer in answers:
        tell_one(answer)
