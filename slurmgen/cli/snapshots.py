"""`slurmgen snapshots`: list what slurmgen keeps at a site, and remove what no job needs."""

from collections import Counter
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from slurmgen.cli.answers import is_terminal
from slurmgen.cli.options import connect, json_option, project_dir, route_options, site_option, site_route
from slurmgen.cli.output import Command, print_json, say
from slurmgen.text import counted, listed, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from slurmgen.status.prune import Kept, Task

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
@click.option(
    "--remote-dir", metavar="FOLDER", help="Folder on the cluster for submissions; default: ~/slurmgen."
)
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
def command(
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
    from slurmgen.config.project import DEFAULT_SITE, find_project
    from slurmgen.config.user import load_personal
    from slurmgen.status.prune import kept
    from slurmgen.submit.prepare import DEFAULT_REMOTE_DIR
    from slurmgen.sync.manifest import remote_folder

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
            items = tuple(_as_removable(item) for item in items)
        if task == "PRUNE" and _confirmed(items):
            before = items
            complaint, items = kept(transport, folder, "ALL", days)
            items = (*(item for item in before if item.state == "removed"), *items)
    if as_json:
        from slurmgen.cli.job_objects import Snapshots

        print_json(Snapshots(kept=list(items), complaint=complaint))
    else:
        _print_rows(
            [item for item in items if not prune or item.state in ("removed", "removable", "unfetched")]
        )
    _print_sum(items, complaint, task, days)


def _as_removable(item: "Kept") -> "Kept":
    return replace(item, state="removable") if item.state == "unfetched" else item


def _confirmed(items: "Sequence[Kept]") -> bool:
    """Whether the user at the terminal wants to lose the results that were never fetched."""
    runs = [f"{item.project}/{item.name}" for item in items if item.state == "unfetched"]
    if not runs or not is_terminal():
        return False
    text = f"{counted(len(runs), 'run')} with results that were never fetched: {listed(runs)}. Remove them?"
    return click.confirm(visible(text), err=True)


def _print_rows(items: "Sequence[Kept]") -> None:
    from datetime import UTC, datetime

    from slurmgen.slurm.units import readable_size

    for item in items:
        used = datetime.fromtimestamp(item.used, UTC).isoformat(sep=" ", timespec="minutes")[:16]
        name = item.name if item.kind == "run" else item.name[:12]
        detail = f": {item.detail}" if item.detail else ""
        size = readable_size(item.size)
        click.echo(visible(f"{used}  {size:>9}  {item.kind:8}  {item.project}/{name}  {item.state}{detail}"))


def _print_sum(items: "Sequence[Kept]", complaint: str, task: "Task", days: float) -> None:
    from slurmgen.slurm.units import readable_size

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
