"""`slurmgen status`: what became of jobs, or of all that were submitted from here."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from slurmgen.cli.route_options import find_jobs, reach, route_options, way_of
from slurmgen.cli.site_option import site_option
from slurmgen.cli.told import exit_code, print_jobs, tell

if TYPE_CHECKING:
    from slurmgen.asking import Answer, Named
    from slurmgen.ledger import Record
    from slurmgen.remote.report import Report
    from slurmgen.remote.route import Route

LIMIT = 20
PENDING = "not known to have become a job; repeat its `slurmgen submit`, which finds the job or submits it"
ENDED = "it had ended when it was last asked for"


@click.command()
@click.argument("job_ids", metavar="[ID...]", nargs=-1)
@site_option
@route_options
@click.option(
    "--limit", type=click.IntRange(1), default=LIMIT, show_default=True, help="Without ID: only the last N."
)
@click.option("--all", "everything", is_flag=True, help="Without ID: all of them.")
@click.option("--json", "as_json", is_flag=True, help="Print an object, and nothing else.")
def command(
    job_ids: tuple[str, ...], site: str | None, limit: int, everything: bool, as_json: bool, **said: Any
) -> int:
    """Show what became of submitted jobs; without ID, of the last.

    ID is a job's id, ID_TASK in an array, a job's name, or `last`. Exit code 3 if a site was not reached, and
    it is not known how a job there ended.
    """
    if not job_ids:
        return _list(site, 0 if everything else limit, as_json, said)
    from slurmgen.asking import ask, remember

    answers = ask(find_jobs(job_ids, site, **said), reach)
    remember(answers)
    tell(answers, as_json=as_json, several=len(job_ids) > 1)
    return exit_code(answers)


def _list(site: str | None, limit: int, as_json: bool, said: dict[str, Any]) -> int:
    """Print the last jobs of the ledger by site, the newest last."""
    from slurmgen.ledger import Ledger

    records = [one for one in Ledger().all() if site in (None, one.site)]
    if not records and not as_json:
        click.echo("no job was submitted from here yet", err=True)
        return 0
    records = records[-limit:]
    ways = {one: way_of(one, **said) for one in records}
    answers = _answers([_of(one, way) for one, way in ways.items() if not one.pending])
    reports = {one.named.record: one.report for one in answers}
    rows = [(way, reports.get(one) or _pending(one)) for one, way in ways.items()]
    if as_json:
        print_jobs([told for _, told in rows], several=True)
    else:
        _show(rows)
    return exit_code(answers)


def _answers(jobs: "list[Named]") -> "list[Answer]":
    """What became of jobs; a site is asked only for those of which it is not known how they ended."""
    from slurmgen.asking import answer, ask, remember, remembered

    # Where a site gave an id twice, nobody knows the earlier job any more.
    latest = {(one.way.site, one.way.via, one.job): one for one in jobs}
    known = {
        one: remembered(one, ENDED) or answer(one, ())
        for one in jobs
        if one.final or latest[one.way.site, one.way.via, one.job] is not one
    }
    asked = ask([one for one in jobs if one not in known], reach, explain=False)
    remember(asked)
    return [*known.values(), *asked]


def _of(record: "Record", way: "Route") -> "Named":
    from slurmgen.asking import Named
    from slurmgen.slurm.commands import JobId

    return Named(JobId(record.id, record.cluster), way, record)


def _pending(record: "Record") -> "Report":
    from slurmgen.remote.report import Report
    from slurmgen.remote.slurm import UNKNOWN

    return Report(
        id="",
        name=record.name,
        site=record.site,
        via=record.via,
        state=UNKNOWN,
        ended=False,
        submitted=record.submitted,
        folder=record.folder,
        error=PENDING,
    )


def _show(rows: "Sequence[tuple[Route, Report]]") -> None:
    """Print a table for each site, and what is to be said of it once."""
    from slurmgen.wording import visible

    table = [("ID", "NAME", "STATE", "SUBMITTED", "FOLDER")]
    table += [(one.id or "-", one.name, one.state, one.submitted, one.folder) for _, one in rows]
    shown = [[visible(cell) for cell in row] for row in table]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in shown]
    for way in dict.fromkeys(way for way, _ in rows):
        own = [(line, told) for line, (at, told) in zip(lines[1:], rows, strict=True) if at == way]
        click.echo(visible(_title(way)))
        click.echo(f"  {lines[0]}")
        for line, _ in own:
            click.echo(f"  {line}")
        for error in dict.fromkeys(told.error for _, told in own if told.error):
            click.echo(visible(f"  {error}"))


def _title(way: "Route") -> str:
    by = {"ssh": f", through {way.host}", "local": ", this machine", "twin": ", its twin here"}
    return f"{way.site}{by[way.via]}"
