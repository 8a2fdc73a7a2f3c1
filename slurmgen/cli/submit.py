"""`slurmgen submit`: send the project, submit the job, print its id."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurmgen.cli.job_output import print_json
from slurmgen.cli.options import Asked, JobCommand, project_size_option, request_options, send_option, typed
from slurmgen.cli.route_options import route_options, set_out
from slurmgen.cli.submit_output import amount_of, print_id, say, show, warn, what_happened

if TYPE_CHECKING:
    from slurmgen.jobs.exactly_once import Count, Submitted
    from slurmgen.jobs.ledger import Ledger, Record
    from slurmgen.jobs.submit import Prepared
    from slurmgen.plan import Plan
    from slurmgen.remote.background import BackgroundLogin
    from slurmgen.remote.route import Route
    from slurmgen.remote.transport import Transport


@click.command(cls=JobCommand)
@request_options
@route_options
@click.option("--remote-dir", metavar="FOLDER", help="Remote folder for submissions; default: ~/slurmgen.")
@project_size_option
@send_option
@click.option("--again", is_flag=True, help="Submit a new job even if an earlier submission is unsettled.")
@click.option("--test-only", is_flag=True, help="Ask Slurm whether it would accept the job; submit nothing.")
@click.option("--dry-run", is_flag=True, help="Print the script and what would be sent; connect to no host.")
@click.option(
    "--follow", is_flag=True, help="Follow the log until the job ends; exit 0 if it COMPLETED, else 1."
)
@click.option("--json", "as_json", is_flag=True, help="Print an object instead of the id.")
def command(
    asked: Asked,
    remote_dir: str | None,
    max_size: int,
    send: tuple[str, ...],
    again: bool,
    test_only: bool,
    dry_run: bool,
    follow: bool,
    as_json: bool,
    **said: Any,
) -> None:
    """Send the project to the site and submit the job.

    JOB is a job of slurmgen.toml; default: its only job. With --script and no JOB, the job is made from
    [defaults]. Without jobs in slurmgen.toml, the bundled example is submitted. The id is printed to
    stdout, and everything else to stderr. After any failure the same command finds the job, or submits it
    if there is none.
    """
    from slurmgen.remote.route import find_route

    if test_only + dry_run + follow > 1:
        raise click.UsageError("--test-only, --dry-run and --follow exclude each other.")
    way = find_route(asked.site, asked.personal, **said)
    # On the way there while the plan and the project are looked at.
    with set_out(way, starts=not dry_run) as going:
        plan, text = _script(asked, follow=follow)
        prepared = _prepared(asked, plan, text, way, remote_dir, max_size, send)
        if test_only:
            _try_out(going, way, text, as_json)
            return
        if dry_run:
            warn(prepared, plan)
            show(prepared, as_json)
            return
        _submit(going, prepared, plan, again, follow, as_json)


def _script(asked: Asked, *, follow: bool) -> "tuple[Plan, str]":
    plan = asked.plan()
    if follow:
        _refuse_array(plan)
    return plan, asked.text(plan)


def _prepared(
    asked: Asked,
    plan: "Plan",
    text: str,
    way: "Route",
    remote_dir: str | None,
    max_size: int,
    send: tuple[str, ...],
) -> "Prepared":
    from msgspec import structs

    from slurmgen.jobs.submit import prepare

    folder = remote_dir or asked.personal.remote_dir
    prepared = prepare(plan, text, way, asked.project_dir, folder, max_size, send)
    command, directory = typed(click.get_current_context()), str(Path.cwd())
    return structs.replace(
        prepared, record=structs.replace(prepared.record, command=command, directory=directory)
    )


def _refuse_array(plan: "Plan") -> None:
    from slurmgen.errors import RequestError

    if any(key == "array" for key, _ in plan.extra_directives):
        raise RequestError(
            "--follow shows one log, and each task of an array has its own",
            "Leave out --follow; `slurmgen logs -f ID_TASK` follows one.",
        )


def _try_out(going: "BackgroundLogin", way: "Route", text: str, as_json: bool) -> None:
    from slurmgen.jobs.exactly_once import try_out

    with going.transport() as far:
        answer = try_out(far, text)
    if as_json:
        print_json({"site": way.site, "via": way.via, "answer": answer})
    of = "the twin of " if way.via == "twin" else ""
    say(f"{of}{way.site} would take the job: {answer}")


def _submit(
    going: "BackgroundLogin", prepared: "Prepared", plan: "Plan", again: bool, follow: bool, as_json: bool
) -> None:
    from slurmgen.jobs.ledger import Ledger
    from slurmgen.jobs.submit import reached, settled_record, submit_entry

    ledger = Ledger()
    entry = ledger.claim(prepared.record, again=again)
    with reached(ledger, entry, going.transport) as far:
        warn(prepared, plan)
        if entry.key != prepared.record.key:
            when = entry.submitted
            say(f"this was submitted at {when}, and what became of it is not known yet: finding out")
        say(f"{amount_of(prepared)} in all, to {far.where}")
        with _progress() as count:
            entry, done = submit_entry(far, prepared, entry, ledger, count=count)
        settled = settled_record(prepared, entry, done)
        _write_down(ledger, settled)
        print_id(settled, done, as_json)
        say(what_happened(prepared, settled, done, far))
        if done.warning:
            say(f"warning: {done.warning}; docs/reliability.md says what a group's folder needs")
        if follow:
            _follow(far, prepared.way, settled, done)


def _write_down(ledger: "Ledger", settled: "Record") -> None:
    """Record a job. If that fails it is submitted all the same, so this is a warning and no error."""
    from slurmgen.errors import ConfigError

    try:
        ledger.settle(settled)
    except ConfigError as error:
        say(
            f"warning: job {settled.id} is submitted, in {settled.folder}, but not in your records: "
            f"{error.fact}. Reach it with --site {settled.site}."
        )


def _follow(far: "Transport", way: "Route", settled: "Record", done: "Submitted") -> None:
    from slurmgen.cli.logs import follow_to_end
    from slurmgen.jobs.logs import log_path
    from slurmgen.jobs.slurm_client import job_states

    path = log_path(done.folder, settled.output, settled.name, str(done.job))
    for state in job_states(far, done.job):
        if state.state == "PENDING":
            why = f" ({state.reason})" if state.reason else ""
            say(f"job {done.job} is PENDING{why}; its log follows when it starts")
    follow_to_end(far, way, done.job, path, err=True)


@contextmanager
def _progress() -> "Iterator[Count | None]":
    """A bar on a terminal, and nothing elsewhere."""
    import sys

    if not (sys.stderr and sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TimeRemainingColumn

    from slurmgen.slurm.sizes import of_bytes

    columns = ("sending", BarColumn(), "{task.description}", TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, visible=False)

        def count(part: int, total: int) -> None:
            sent = int(bar.tasks[task].completed) + part
            how_much = f"{of_bytes(sent)} of {of_bytes(total)}"
            bar.update(task, completed=sent, total=max(total, 1), description=how_much, visible=True)

        yield count
