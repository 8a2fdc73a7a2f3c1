"""`slurmgen status`: what became of jobs, or of all that were submitted from here."""

from typing import TYPE_CHECKING, Any

import click

from slurmgen.cli.color import color_option, console
from slurmgen.cli.help import Command
from slurmgen.cli.job_output import exit_code, print_jobs, tell
from slurmgen.cli.route_options import find_jobs, reach, route_options, way_of
from slurmgen.cli.site_option import site_option

if TYPE_CHECKING:
    from slurmgen.jobs.ledger import Record
    from slurmgen.jobs.report import Report
    from slurmgen.jobs.status import Answer, Named
    from slurmgen.remote.route import Route

LIMIT = 20
UNSETTLED = (
    "not known to have become a job: repeat its command, which finds the job or submits it, "
    "or give it up with `slurmgen forget {}`"
)
ENDED = "it had ended when it was last asked for"


@click.command(
    "status",
    cls=Command,
    examples={
        "slurmgen status": "List your last jobs",
        "slurmgen status last": "Show the job that was submitted last",
        "slurmgen status 1234567 --json": "Read the state of a job in a program",
    },
)
@click.argument("job_ids", metavar="[ID...]", nargs=-1)
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
@color_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def command(
    job_ids: tuple[str, ...],
    site: str | None,
    limit: int,
    everything: bool,
    color: str,
    as_json: bool,
    **said: Any,
) -> int:
    """Show the state of submitted jobs; without ID, list the last ones.

    ID is a job id, ID_TASK in an array, a job name, or `last`. Exits with 3 if the state of a job is unknown
    because its site was not reached.
    """
    if not job_ids:
        return _list(site, 0 if everything else limit, color, as_json, said)
    from slurmgen.jobs.status import ask, remember

    answers = ask(find_jobs(job_ids, site, **said), reach)
    remember(answers)
    tell(answers, as_json=as_json, several=len(job_ids) > 1, origins=True)
    return exit_code(answers)


def _list(site: str | None, limit: int, color: str, as_json: bool, said: dict[str, Any]) -> int:
    """Print the last jobs of the ledger, the newest last."""
    from slurmgen.cli.status_table import print_table
    from slurmgen.jobs.ledger import Ledger

    records = [one for one in Ledger().all() if site in (None, one.site)]
    if not records and not as_json:
        click.echo("no job was submitted from here yet", err=True)
        return 0
    records = records[-limit:]
    answers = _answers([_of(one, way_of(one, **said)) for one in records if not one.pending])
    known = {one.named.record: one.report for one in answers}
    reports = [known.get(one) or _unsettled(one) for one in records]
    if as_json:
        print_jobs(reports, several=True)
    else:
        print_table(reports, console(color))
    return exit_code(answers)


def _answers(jobs: "list[Named]") -> "list[Answer]":
    """What became of jobs; a site is asked only for those of which it is not known how they ended."""
    from slurmgen.jobs.status import answer, ask, remember, remembered

    # Where a site gave an id twice, Slurm does not know the earlier job any more.
    latest = {(one.way.site, one.way.via, one.job): one for one in jobs}
    known = {
        one: remembered(one, ENDED) or answer(one, ())
        for one in jobs
        if one.is_settled or latest[one.way.site, one.way.via, one.job] is not one
    }
    asked = ask([one for one in jobs if one not in known], reach, lenient=True)
    remember(asked)
    return [*known.values(), *asked]


def _of(record: "Record", way: "Route") -> "Named":
    from slurmgen.jobs.status import Named
    from slurmgen.slurm.commands import JobId

    return Named(JobId(record.id, record.cluster), way, record)


def _unsettled(record: "Record") -> "Report":
    from slurmgen.jobs.report import Report
    from slurmgen.jobs.slurm_client import UNKNOWN

    return Report(
        id="",
        name=record.name,
        site=record.site,
        via=record.via,
        state=UNKNOWN,
        ended=False,
        submitted=record.submitted,
        folder=record.folder,
        commit=record.commit,
        dirty=record.dirty,
        key=record.key,
        command=record.command,
        directory=record.directory,
        error=UNSETTLED.format(record.key),
    )
