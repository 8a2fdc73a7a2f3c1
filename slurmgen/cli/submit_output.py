"""What `slurmgen submit` prints: what it would send, warnings, and the job."""

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from slurmgen.cli.job_output import print_json, print_script, say
from slurmgen.errors import SlurmgenError
from slurmgen.slurm.dependencies import WORDS
from slurmgen.slurm.sizes import of_bytes
from slurmgen.text import counted

if TYPE_CHECKING:
    from slurmgen.cli.objects.jobs import DryRun, Submitted
    from slurmgen.jobs.ledger import Record
    from slurmgen.jobs.one_job import Outcome
    from slurmgen.jobs.prepare import Prepared
    from slurmgen.plan import Plan

LARGE = 100 << 20
"Bytes, above which the user may not have meant to send the whole project."


def show(prepared: "Prepared", as_json: bool) -> None:
    """Print the script, and on stderr what would be sent, and where to."""
    submission, route = prepared.submission, prepared.route
    if as_json:
        print_json(_dry_run(prepared))
        return
    routes = {
        "ssh": f"through {route.host} over SSH",
        "local": "from this machine",
        "twin": "to its twin here",
    }
    print_script(submission.script)
    say_options(submission.sbatch_options)
    if submission.login_script:
        say("would first run on the login node, unless the same lines have run there before:")
        for line in submission.login_script.splitlines():
            say(f"  {line}")
    if prepared.secrets.names:
        say(f"would send the secrets {', '.join(prepared.secrets.names)}, into a file that the job reads")
    say(f"would submit to site {route.site}, {routes[route.via]}")
    for one in prepared.after:
        say(f"would depend on another job: it {one.text}")
    say(f"would send {amount_of(prepared)} to {_from_home(submission.folder)}:")
    own = () if submission.file else (submission.script_name,)
    for name in (*submission.files.files, *own):
        say(f"  {name}")
    say(_sent_before(prepared))


def say_options(options: Sequence[str]) -> None:
    """Print the options of sbatch that override the header of a batch script."""
    if options:
        say(f"sbatch would get {shlex.join(options)}, which overrides the header of the script")


def _dry_run(prepared: "Prepared") -> "DryRun":
    from slurmgen.cli.objects.jobs import Awaited, DryRun

    submission = prepared.submission
    return DryRun(
        script=submission.script,
        sbatch_options=list(submission.sbatch_options),
        before_login=submission.login_script,
        after=[Awaited(id=one.job.id.number, type=one.type) for one in prepared.after],
        folder=submission.folder,
        snapshot=submission.content.hash,
        bytes=submission.content.size,
        files=list(submission.files.files),
        secrets=list(submission.files.secrets),
        secret_variables=list(prepared.secrets.names),
    )


def _sent_before(prepared: "Prepared") -> str:
    """How many of the files were sent before, as far as this machine knows."""
    if prepared.first.base == "-":
        return "no file of this project was sent to that folder before"
    changed = len(prepared.first.names)
    same = counted(len(prepared.submission.content.entries) - changed, "file")
    return f"{same} sent before; {changed} to send now"


def _from_home(folder: str) -> str:
    return folder if folder.startswith("/") else f"~/{folder.removeprefix('./')}"


def print_id(outcome: "Outcome", as_json: bool, make: "Callable[[Outcome], Submitted] | None" = None) -> None:
    """Print the id of the job, or the object that `make` returns.

    Raises:
        SlurmgenError: it cannot be printed; the error names it, so that it is not lost.
    """
    job = outcome.submitted.job
    try:
        print_json((make or as_object)(outcome)) if as_json else click.echo(job)
    except OSError as error:
        raise SlurmgenError(
            f"job {job} is submitted, but its id could not be printed: {error.strerror}",
            f"`slurmgen status {job}` shows it.",
        ) from None


def print_ids(outcomes: "Sequence[Outcome]", as_json: bool) -> None:
    """Print the id of each array of a sweep, one on a line."""
    if as_json:
        from slurmgen.cli.objects.jobs import SubmittedList

        print_json(SubmittedList(jobs=[as_object(outcome) for outcome in outcomes]))
        return
    for outcome in outcomes:
        print_id(outcome, as_json=False)


def as_object(outcome: "Outcome") -> "Submitted":
    """The object of --json for a submitted job."""
    from slurmgen.cli.objects.jobs import Submitted

    return Submitted(**submitted_values(outcome.record), earlier=outcome.submitted.earlier)


def submitted_values(record: "Record") -> dict[str, Any]:
    """What of a record is in the object of --json."""
    from slurmgen.cli.objects.jobs import Submitted

    known = set(Submitted.__struct_fields__)
    return {key: value for key, value in structs.asdict(record).items() if key in known}


def say_result(prepared: "Prepared", outcome: "Outcome") -> None:
    """Print which job it is and where it runs, and whether it is from an earlier submission."""
    done, where = outcome.submitted, outcome.transport.where
    folder = f"its folder on {where} is {done.folder}"
    if done.earlier:
        when = datetime.fromtimestamp(done.seconds, UTC).isoformat(timespec="seconds")
        say(
            f"job {done.job} is the earlier submission, of {when}; {folder}.{_older_files(prepared, outcome)}"
        )
    else:
        say(f"submitted job {done.job}; {folder}")
    for one in outcome.waits:
        say(f"it {one.text}")
    for one in () if done.earlier else prepared.after:
        if one not in outcome.waits:
            say(f"it does not wait for job {one.name}, which {WORDS[one.type]}")
    if done.warning:
        say(f"warning: {done.warning}; docs/reliability.md says what a group's folder needs")


def _older_files(prepared: "Prepared", outcome: "Outcome") -> str:
    if outcome.submitted.snapshot == prepared.submission.content.hash:
        return ""
    return " It runs the files of that time; --again submits the current ones."


def notes_of(plan: "Plan") -> Iterator[str]:
    """What the user may not have meant in a plan."""
    yield from plan.ranks.settings.notes.values()
    if not plan.request.names_program:
        yield f"no script is named: the bundled example {plan.script} is sent; name yours with --script"


def amount_of(prepared: "Prepared") -> str:
    """How many files the project has, with the batch script, and their size."""
    content = prepared.submission.content
    count = len(content.entries) + (not prepared.submission.file)
    return f"{counted(count, 'file')} ({of_bytes(content.size)})"


def warn(prepared: "Prepared", notes: Iterable[str]) -> None:
    """Point out what the user may not have meant; `notes` are those of the job."""
    files = prepared.submission.files
    for notice in filter(None, (*files.notices, files.secrets_notice())):
        say(notice)
    for note in notes:
        say(note)
    if prepared.submission.content.size > LARGE:
        say("the project is large; list what the job does not need in .slurmgenignore")
