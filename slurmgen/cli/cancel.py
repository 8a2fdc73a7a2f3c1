"""The commands that end jobs and submissions, and that remove what they left at a site."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import click
from msgspec.structs import replace

from slurmgen.cli.job_objects import Forgotten, Snapshots
from slurmgen.cli.options import (
    complete_submissions,
    connect,
    find_jobs,
    jobs_options,
    json_option,
    project_dir,
    remote_dir_option,
    route_options,
    site_option,
    site_route,
)
from slurmgen.cli.output import Command, can_answer, print_json, print_report, print_reports, say, warn
from slurmgen.config.project import DEFAULT_SITE, find_project
from slurmgen.config.user import load_personal
from slurmgen.errors import SlurmgenError
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.remote.route import Route
from slurmgen.slurm.replies import GONE
from slurmgen.slurm.units import readable_size
from slurmgen.status.job import Job
from slurmgen.status.lookup import find_submission, recorded_route
from slurmgen.status.prune import Kept, Task, kept
from slurmgen.status.query import save_final_states
from slurmgen.status.report import Report, to_json
from slurmgen.status.slurm import UNKNOWN
from slurmgen.status.sweep import joined
from slurmgen.submit.cancel import cancel_all, cancel_jobs, settle
from slurmgen.submit.prepare import DEFAULT_REMOTE_DIR
from slurmgen.sync.manifest import remote_folder
from slurmgen.text import counted, listed, visible

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
def cancel_command(job_ids: tuple[str, ...], site: str | None, as_json: bool, **options: Any) -> int:
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
def forget_command(
    submission: str, site: str | None, cancel: bool, force: bool, as_json: bool, **options: Any
) -> None:
    """Forget a submission that may not have become a job.

    Name it by its job or by its key, which `slurmgen status` shows. If the remote host has a job for it, the
    job is recorded. Otherwise the key is closed on the remote host, so that no job can follow, and the entry
    is removed. Exits with 3 if neither is certain; then nothing is changed.
    """
    entry = find_submission(submission, site)
    route = recorded_route(entry, options)
    try:
        with connect(route) as transport:
            settled = settle(transport, entry, Ledger())
    except SlurmgenError as error:
        if not force:
            raise type(error)(error.fact, f"{error.hint} {_FORCE_HINT}".strip()) from None
        Ledger().drop(entry.key)
        warn(f"{error.fact}. The entry was removed, but a job may exist: look in the queue of {entry.site}.")
        if as_json:
            print_json(_forgotten(entry, "forced"))
    else:
        if not as_json:
            outcome = (
                f"became job {settled.id}: recorded" if settled else "has no job and can have none: removed"
            )
            click.echo(visible(f"submission {entry.key} ({entry.name}) {outcome}"))
        cancelled = _cancel(settled, route) if settled and cancel else None
        if as_json:
            print_json(_forgotten(entry, "recorded" if settled else "removed", settled, cancelled))
        elif cancelled:
            print_report(cancelled)


def _forgotten(
    entry: "Record",
    outcome: Literal["recorded", "removed", "forced"],
    settled: "Record | None" = None,
    cancelled: "Report | None" = None,
) -> "Forgotten":
    return Forgotten(
        key=entry.key,
        name=entry.name,
        site=entry.site,
        outcome=outcome,
        job=settled.id if settled else None,
        cancelled=to_json(cancelled) if cancelled else None,
    )


def _cancel(settled: "Record", route: "Route") -> "Report":
    with connect(route) as transport:
        reports = cancel_jobs(transport, [Job.of(settled, route)], say)
    save_final_states(reports)
    return reports[0]


DAYS = 7.0


@click.command(
    "snapshots",
    cls=Command,
    examples={
        "slurmgen snapshots --site daic": "List what slurmgen stores at a site",
        "slurmgen snapshots --site daic --prune --older-than 30": "Remove what was not used for 30 days",
    },
)
@site_option
@route_options
@remote_dir_option
@click.option("--prune", is_flag=True, help="Remove runs that have ended, and snapshots that no job uses.")
@click.option(
    "--older-than",
    type=click.FloatRange(min=0),
    metavar="DAYS",
    help=f"With --prune: remove what was not used for this long; default: {DAYS:g}.",
)
@click.option("--dry-run", is_flag=True, help="With --prune: only say what would be removed.")
@click.option("--yes", is_flag=True, help="With --prune: also remove results that were never fetched.")
@json_option
def snapshots_command(
    site: str | None,
    remote_dir: str | None,
    prune: bool,
    older_than: float | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """List what slurmgen stores at a site, and remove what no job needs.

    A snapshot is a project as it was submitted; a run is the folder of one job, with its results; an env is a
    Python environment that runs with the same uv.lock share. What may be in use is not removed: the
    files of a job that has not ended, or of a submission whose outcome is unknown, and all files if Slurm
    does not reply. It asks before it removes results that were never fetched; without a terminal it keeps
    them.
    """
    given = {"--older-than": older_than is not None, "--dry-run": dry_run, "--yes": yes}
    if not prune and any(given.values()):
        raise click.UsageError(f"{next(option for option in given if given[option])} needs --prune.")
    name = site or find_project(project_dir())[1].site or DEFAULT_SITE
    route = site_route(options, name)
    folder = remote_folder(remote_dir or load_personal(name).remote_dir or DEFAULT_REMOTE_DIR) or "/"
    days = DAYS if older_than is None else older_than
    task: Task = "KEEP" if not prune else "TRY" if dry_run else "ALL" if yes else "PRUNE"
    with connect(route) as transport:
        complaint, items = kept(transport, folder, task, days)
        if yes:
            items = tuple(
                replace(item, state="removable") if item.state == "unfetched" else item for item in items
            )
        if task == "PRUNE" and _confirmed(items):
            before = items
            complaint, items = kept(transport, folder, "ALL", days)
            items = (*(item for item in before if item.state == "removed"), *items)
    if as_json:
        print_json(Snapshots(kept=list(items), complaint=complaint))
    else:
        _print_rows(
            [item for item in items if not prune or item.state in ("removed", "removable", "unfetched")]
        )
    _print_sum(items, complaint, task, days)


def _confirmed(items: "Sequence[Kept]") -> bool:
    """Whether the user at the terminal wants to lose the results that were never fetched."""
    runs = [f"{item.project}/{item.name}" for item in items if item.state == "unfetched"]
    if not runs or not can_answer():
        return False
    text = f"{counted(len(runs), 'run')} with results that were never fetched: {listed(runs)}. Remove them?"
    return click.confirm(visible(text), err=True)


def _print_rows(items: "Sequence[Kept]") -> None:
    for item in items:
        used = datetime.fromtimestamp(item.used, UTC).isoformat(sep=" ", timespec="minutes")[:16]
        name = item.name if item.kind == "run" else item.name[:12]
        detail = f": {item.detail}" if item.detail else ""
        size = readable_size(item.size)
        click.echo(visible(f"{used}  {size:>9}  {item.kind:8}  {item.project}/{name}  {item.state}{detail}"))


def _print_sum(items: "Sequence[Kept]", complaint: str, task: "Task", days: float) -> None:
    if complaint:
        message = " ".join(complaint.split())
        say(f"warning: Slurm did not report which jobs have ended: {message}")
    state = {"KEEP": "free", "TRY": "removable"}.get(task, "removed")
    label = {"KEEP": "no job needs", "TRY": "would remove"}.get(task, "removed")
    sizes = [item.size for item in items if item.state == state]
    say(f"{label} {len(sizes)} of {len(items)}: {readable_size(sum(sizes))}")
    if task != "KEEP":
        for reason in _reasons(items, days):
            say(reason)


def _reasons(items: "Sequence[Kept]", days: float) -> "Iterator[str]":
    """Why the rest is kept."""
    counts = Counter(item.state for item in items)
    if counts["unfetched"]:
        yield (
            f"kept {counts['unfetched']} with results that were never fetched: "
            "`slurmgen fetch` fetches them, --yes removes them"
        )
    if counts["free"]:
        yield f"kept {counts['free']} younger than {days:g} days: see --older-than"
    if counts["kept"]:
        details = dict.fromkeys(item.detail for item in items if item.state == "kept")
        yield f"kept {counts['kept']} that may be in use, or cannot be removed: {listed(list(details))}"
