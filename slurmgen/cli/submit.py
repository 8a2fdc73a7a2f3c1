"""`slurmgen submit`: send the project, submit the job, print its id."""

from datetime import UTC, datetime
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import click

from slurmgen.cli.options import Asked, JobCommand, request_options
from slurmgen.cli.route_options import reach, route_options

if TYPE_CHECKING:
    from slurmgen.ledger import Ledger, Record
    from slurmgen.plan import Plan
    from slurmgen.remote.route import Route
    from slurmgen.remote.submission import Submission, Submitted
    from slurmgen.remote.transport import Transport

DEFAULT_REMOTE_DIR = "slurmgen"
LARGE = 100_000_000
"Bytes, above which a person may not have meant to send all this."


@click.command(cls=JobCommand)
@request_options
@route_options
@click.option(
    "--remote-dir", metavar="FOLDER", help="Folder over there for submissions; ~/slurmgen if unset."
)
@click.option("--test-only", is_flag=True, help="Ask Slurm whether it would take the job; submit nothing.")
@click.option("--dry-run", is_flag=True, help="Show the script and what would be sent; contact nobody.")
@click.option(
    "--follow", is_flag=True, help="Show the log until the job ends; exit 0 if it COMPLETED, else 1."
)
def command(
    asked: Asked, remote_dir: str | None, test_only: bool, dry_run: bool, follow: bool, **said: Any
) -> None:
    """Send the project to the site and submit the job.

    The job's id is printed to stdout, and everything else to stderr.
    """
    from slurmgen.plan import resolve
    from slurmgen.remote.route import route
    from slurmgen.script import render

    if test_only + dry_run + follow > 1:
        raise click.UsageError("--test-only, --dry-run and --follow exclude each other.")
    plan = resolve(asked.request, asked.site, asked.command, asked.sources)
    text = render(plan, asked.template_dir)
    way = route(asked.site, asked.personal, **said)
    if test_only:
        _try_out(way, text)
        return
    submission = _submission(asked, plan, text, remote_dir)
    if way.via != "ssh":
        _refuse_nesting(submission, asked)
    if dry_run:
        _show(submission, way)
        return
    ledger = _ledger()
    with reach(way) as far:
        done = _submit(far, submission, way, ledger)
        if follow:
            _follow(far, way, submission, done)


def _submission(asked: Asked, plan: "Plan", text: str, remote_dir: str | None) -> "Submission":
    from slurmgen.remote.project_files import project_files
    from slurmgen.remote.submission import Submission, parent_folder
    from slurmgen.software import needed_files

    folder = remote_dir or asked.personal.remote_dir or DEFAULT_REMOTE_DIR
    return Submission(
        name=plan.name,
        script=text,
        files=project_files(asked.project_dir, plan.script, needed_files(plan.setup.python_env)),
        parent=parent_folder(folder, asked.project_dir.resolve().name),
        key=f"{_now():%Y%m%d-%H%M%S}-{token_hex(4)}",
        output=plan.output,
    )


def _refuse_nesting(submission: "Submission", asked: Asked) -> None:
    """On this machine, a submission within the project would send all those before it again."""
    from pathlib import Path

    from slurmgen.errors import RequestError

    if Path(Path.home(), submission.parent).resolve().is_relative_to(asked.project_dir.resolve()):
        raise RequestError(
            f"submissions would go to {submission.parent}, inside the project itself",
            "Name a folder outside it with --remote-dir.",
        )


def _try_out(way: "Route", text: str) -> None:
    from slurmgen.remote.submission import try_out

    with reach(way) as far:
        click.echo(f"{way.site} would take the job: {try_out(far, text)}", err=True)


def _show(submission: "Submission", way: "Route") -> None:
    """Print the script, and on stderr what would be sent where."""
    from slurmgen.slurm.shell import visible

    ways = {"ssh": f"through {way.host} over SSH", "local": "from this machine", "twin": "to its twin here"}
    click.echo(submission.script, nl=False)
    click.echo(visible(f"would submit to site {way.site}, {ways[way.via]}"), err=True)
    click.echo(visible(f"would send {_amount(submission)} to {_from_home(submission.folder)}:"), err=True)
    for name in (*submission.files.files, submission.script_name):
        click.echo(f"  {visible(name)}", err=True)
    _warn(submission)


def _from_home(folder: str) -> str:
    return folder if folder.startswith("/") else f"~/{folder.removeprefix('./')}"


def _ledger() -> "Ledger":
    """The ledger, known to take a record: after sbatch it would be too late to find out."""
    from slurmgen.ledger import Ledger

    ledger = Ledger()
    ledger.check()
    return ledger


def _submit(far: "Transport", submission: "Submission", way: "Route", ledger: "Ledger") -> "Submitted":
    from slurmgen.remote.submission import submit
    from slurmgen.slurm.shell import visible

    _warn(submission)
    click.echo(f"sending {_amount(submission)} to {far.where}", err=True)
    done = submit(far, submission)
    try:
        click.echo(done.job)
    finally:  # there is a job, even if nobody reads its id
        _write_down(ledger, submission, way, done)
    click.echo(visible(f"submitted job {done.job}; its folder on {far.where} is {done.folder}"), err=True)
    return done


def _write_down(ledger: "Ledger", submission: "Submission", way: "Route", done: "Submitted") -> None:
    """Record a job. If that fails it is submitted all the same, so this is a warning and no error."""
    from slurmgen.errors import ConfigError
    from slurmgen.slurm.shell import visible

    try:
        ledger.add(_record(submission, way, done))
    except ConfigError as error:
        click.echo(
            visible(
                f"warning: job {done.job} is submitted, in {done.folder}, but not in your records: "
                f"{error.fact}. Reach it with --site {way.site}."
            ),
            err=True,
        )


def _record(submission: "Submission", way: "Route", done: "Submitted") -> "Record":
    from msgspec import structs

    from slurmgen.ledger import Record

    return Record(
        id=done.job.number,
        cluster=done.job.cluster,
        name=submission.name,
        folder=done.folder,
        output=submission.output,
        submitted=_now().isoformat(timespec="seconds"),
        **{key: value for key, value in structs.asdict(way).items() if key in Record.__struct_fields__},
    )


def _follow(far: "Transport", way: "Route", submission: "Submission", done: "Submitted") -> None:
    from slurmgen.cli.logs import follow_to_end
    from slurmgen.remote.logs import log_path

    path = log_path(done.folder, submission.output, submission.name, str(done.job))
    follow_to_end(far, way, done.job, path, err=True)


def _amount(submission: "Submission") -> str:
    size = submission.files.size
    amount = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"
    return f"{len(submission.files.files) + 1} files ({amount})"


def _warn(submission: "Submission") -> None:
    from slurmgen.slurm.shell import visible

    for notice in submission.files.notices:
        click.echo(visible(notice), err=True)
    if submission.files.size > LARGE:
        click.echo("this is a lot; name what the job does not need in .slurmgenignore", err=True)


def _now() -> datetime:
    return datetime.now(UTC)
