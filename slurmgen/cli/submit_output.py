"""What `slurmgen submit` prints: what it would send, warnings, and the job."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
from msgspec import structs

from slurmgen.cli.job_output import print_json, print_script, say
from slurmgen.errors import SlurmgenError
from slurmgen.slurm.sizes import of_bytes
from slurmgen.text import counted

if TYPE_CHECKING:
    from slurmgen.jobs.prepare import Prepared
    from slurmgen.jobs.submit import Outcome
    from slurmgen.plan import Plan

LARGE = 100 << 20
"Bytes, above which the user may not have meant to send the whole project."
NOTHING: Mapping[str, object] = {}
_JSON_KEYS = "id cluster site via host name folder key snapshot commit dirty submitted".split()


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
    if submission.login_script:
        say("would first run on the login node, unless the same lines have run there before:")
        for line in submission.login_script.splitlines():
            say(f"  {line}")
    say(f"would submit to site {route.site}, {routes[route.via]}")
    say(f"would send {amount_of(prepared)} to {_from_home(submission.folder)}:")
    for name in (*submission.files.files, submission.script_name):
        say(f"  {name}")
    say(_sent_before(prepared))


def _dry_run(prepared: "Prepared") -> dict[str, object]:
    submission = prepared.submission
    return {
        "script": submission.script,
        "before_login": submission.login_script,
        "folder": submission.folder,
        "snapshot": submission.content.hash,
        "bytes": submission.content.size,
        "files": list(submission.files.files),
        "secrets": list(submission.files.secrets),
    }


def _sent_before(prepared: "Prepared") -> str:
    """How many of the files were sent before, as far as this machine knows."""
    if prepared.first.base == "-":
        return "no file of this project was sent to that folder before"
    changed = len(prepared.first.names)
    same = counted(len(prepared.submission.content.entries) - changed, "file")
    return f"{same} sent before; {changed} to send now"


def _from_home(folder: str) -> str:
    return folder if folder.startswith("/") else f"~/{folder.removeprefix('./')}"


def print_id(outcome: "Outcome", as_json: bool, more: Mapping[str, object] = NOTHING) -> None:
    """Print the id of the job, or an object with `more`.

    Raises:
        SlurmgenError: it cannot be printed; the error names it, so that it is not lost.
    """
    job = outcome.submitted.job
    try:
        print_json({**_as_json(outcome), **more}) if as_json else click.echo(job)
    except OSError as error:
        raise SlurmgenError(
            f"job {job} is submitted, but its id could not be printed: {error.strerror}",
            f"`slurmgen status {job}` shows it.",
        ) from None


def _as_json(outcome: "Outcome") -> dict[str, object]:
    values = structs.asdict(outcome.record)
    return {**{key: values[key] for key in _JSON_KEYS}, "earlier": outcome.submitted.earlier}


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
    if done.warning:
        say(f"warning: {done.warning}; docs/reliability.md says what a group's folder needs")


def _older_files(prepared: "Prepared", outcome: "Outcome") -> str:
    if outcome.submitted.snapshot == prepared.submission.content.hash:
        return ""
    return " It runs the files of that time; --again submits the current ones."


def amount_of(prepared: "Prepared") -> str:
    """How many files the project has, with the batch script, and their size."""
    content = prepared.submission.content
    return f"{counted(len(content.entries) + 1, 'file')} ({of_bytes(content.size)})"


def warn(prepared: "Prepared", plan: "Plan") -> None:
    """Point out what the user may not have meant."""
    files = prepared.submission.files
    for notice in filter(None, (*files.notices, files.secrets_notice())):
        say(notice)
    for note in plan.ranks.settings.notes.values():
        say(note)
    if not plan.request.names_program:
        say(f"no script is named: the bundled example {plan.script} is sent; name yours with --script")
    if prepared.submission.content.size > LARGE:
        say("the project is large; list what the job does not need in .slurmgenignore")
