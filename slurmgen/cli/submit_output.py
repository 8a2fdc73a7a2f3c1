"""What `slurmgen submit` tells a person: before it sends, and of the job that there is."""

from typing import TYPE_CHECKING

import click

from slurmgen.cli.job_output import print_json, print_script
from slurmgen.text import counted

if TYPE_CHECKING:
    from slurmgen.jobs.exactly_once import Submitted
    from slurmgen.jobs.ledger import Record
    from slurmgen.jobs.submit import Prepared
    from slurmgen.plan import Plan
    from slurmgen.remote.transport import Transport

LARGE = 100 << 20
"Bytes, above which the user may not have meant to send all this."


def show(prepared: "Prepared", as_json: bool) -> None:
    """Print the script, and on stderr what would be sent where."""
    submission, way = prepared.submission, prepared.way
    if as_json:
        print_json(
            {
                "script": submission.script,
                "folder": submission.folder,
                "snapshot": submission.content.hash,
                "bytes": submission.content.size,
                "files": list(submission.files.files),
                "secrets": list(submission.files.secrets),
            }
        )
        return
    ways = {"ssh": f"through {way.host} over SSH", "local": "from this machine", "twin": "to its twin here"}
    print_script(submission.script)
    say(f"would submit to site {way.site}, {ways[way.via]}")
    say(f"would send {amount_of(prepared)} to {_from_home(submission.folder)}:")
    for name in (*submission.files.files, submission.script_name):
        say(f"  {name}")
    say(_known(prepared))


def _known(prepared: "Prepared") -> str:
    """What of this was sent before, as far as is known here."""
    if prepared.first.base == "-":
        return "nothing of this was sent there from here before"
    changed = len(prepared.first.names)
    same = counted(len(prepared.submission.content.entries) - changed, "file")
    return f"{same} sent before, and only {changed} to be sent now"


def _from_home(folder: str) -> str:
    return folder if folder.startswith("/") else f"~/{folder.removeprefix('./')}"


def print_id(settled: "Record", done: "Submitted", as_json: bool) -> None:
    """Print the id. There is a job, even if nobody reads that."""
    from slurmgen.errors import SlurmgenError

    try:
        print_json(_told(settled, done)) if as_json else click.echo(done.job)
    except OSError as error:
        raise SlurmgenError(
            f"job {done.job} is submitted, but its id could not be printed: {error.strerror}",
            f"`slurmgen status {done.job}` tells of it.",
        ) from None


def what_happened(prepared: "Prepared", settled: "Record", done: "Submitted", far: "Transport") -> str:
    """Which job it is, where it runs, and whether it is one of before."""
    folder = f"its folder on {far.where} is {done.folder}"
    if not done.earlier:
        return f"submitted job {done.job}; {folder}"
    from datetime import UTC, datetime

    when = datetime.fromtimestamp(done.seconds, UTC).isoformat(timespec="seconds")
    other = done.snapshot != prepared.submission.content.hash
    differs = " It runs the files as they were then; --again submits those of now." if other else ""
    return f"job {done.job} is the earlier submission, of {when}; {folder}.{differs}"


def _told(settled: "Record", done: "Submitted") -> dict[str, object]:
    from msgspec import structs

    kept = "id cluster site via host name folder key snapshot commit dirty submitted".split()
    said = structs.asdict(settled)
    return {**{key: said[key] for key in kept}, "earlier": done.earlier}


def amount_of(prepared: "Prepared") -> str:
    """How much the project is, with the batch script."""
    from slurmgen.slurm.sizes import of_bytes

    content = prepared.submission.content
    return f"{counted(len(content.entries) + 1, 'file')} ({of_bytes(content.size)})"


def warn(prepared: "Prepared", plan: "Plan") -> None:
    """Say what a person may not have meant."""
    files = prepared.submission.files
    for notice in filter(None, (*files.notices, files.secrets_notice())):
        say(notice)
    if plan.request.script is None:
        say(f"no script is named: the bundled example {plan.script} goes along; name yours with --script")
    if prepared.submission.content.size > LARGE:
        say("this is a lot; name what the job does not need in .slurmgenignore")


def say(text: str) -> None:
    """Tell the person; a name in it may be anybody's."""
    from slurmgen.text import visible

    click.echo(visible(text), err=True)
