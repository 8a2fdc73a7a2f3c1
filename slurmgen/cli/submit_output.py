"""What `submit`, `run` and `resubmit` print about a submission."""

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from typing import Any

import click
from msgspec import structs

from slurmgen.cli.job_objects import Awaited, DryRun, Submitted, SubmittedList
from slurmgen.cli.log_output import follow_to_end
from slurmgen.cli.options import say_excluded
from slurmgen.cli.output import print_json, print_script, say
from slurmgen.config.project import FILE_NAME
from slurmgen.errors import ConfigError, RequestError, SlurmgenError
from slurmgen.job_spec import JobSpec
from slurmgen.ledger.bad_nodes import BadNode
from slurmgen.ledger.ledger import Record
from slurmgen.remote.route import Route
from slurmgen.remote.ssh.prompt import Terminal, terminal_prompt
from slurmgen.remote.transport import Transport
from slurmgen.slurm.dependencies import WORDS
from slurmgen.slurm.units import readable_size
from slurmgen.status.job import find_log, job_id
from slurmgen.status.slurm import job_states
from slurmgen.submit.exactly_once import Count
from slurmgen.submit.how import How
from slurmgen.submit.job import Work, submit
from slurmgen.submit.prepare import Prepared
from slurmgen.submit.submission import Login, Observer, Outcome
from slurmgen.text import counted

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
    script = "" if prepared.submission.file else " and the batch script"
    return f"{same} sent before; {changed}{script} to send now"


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


def print_ids(
    outcomes: "Sequence[Outcome]",
    as_json: bool,
    make: "Callable[[Outcome], Submitted] | None" = None,
    *,
    is_group: bool = False,
) -> None:
    """Print the ID of each submitted job on a line of its own."""
    if len(outcomes) == 1 and not is_group:
        print_id(outcomes[0], as_json, make)
    elif as_json:
        print_json(SubmittedList(jobs=[as_object(outcome) for outcome in outcomes]))
    else:
        for outcome in outcomes:
            print_id(outcome, as_json=False)


def as_object(outcome: "Outcome") -> "Submitted":
    """The object of --json for a submitted job."""
    return Submitted(**submitted_values(outcome.record), earlier=outcome.submitted.earlier)


def submitted_values(record: "Record") -> dict[str, Any]:
    """What of a record is in the object of --json."""
    known = set(Submitted.__struct_fields__)
    return {key: value for key, value in structs.asdict(record).items() if key in known}


def say_result(prepared: "Prepared", outcome: "Outcome") -> None:
    """Print which job it is and where it runs, and whether it is from an earlier submission."""
    done, where = outcome.submitted, outcome.transport.where
    folder = f"its folder on {where} is {done.folder}"
    if done.earlier:
        when = datetime.fromtimestamp(done.seconds, UTC).isoformat(timespec="seconds")
        files = "It runs the files of that time; --again submits the current ones."
        older = f" {files}" if done.snapshot != prepared.submission.content.hash else ""
        say(f"job {done.job} is the earlier submission, of {when}; {folder}.{older}")
    else:
        say(f"submitted job {done.job}; {folder}")
    for one in outcome.waits:
        say(f"it {one.text}")
    for one in () if done.earlier else prepared.after:
        if one not in outcome.waits:
            say(f"it does not wait for job {one.name}, which {WORDS[one.type]}")
    if done.warning:
        say(f"warning: {done.warning}; docs/reliability.md says what a group's folder needs")


def announced(job: JobSpec) -> JobSpec:
    """The job; prints what was understood of its program."""
    for notice in job.notices:
        say(notice)
    return job


def refuse_example(job: JobSpec) -> None:
    """Refuse to send the bundled example where nothing names it.

    Raises:
        RequestError: no job and no program is named.
    """
    if job.name is None and not job.request.names_program:
        raise RequestError(
            f"no program and no job is named, and {job.project_dir} has no {FILE_NAME} with one",
            "Name a program (`slurmgen submit train.py --gpus 2`), or write jobs with `slurmgen init`. "
            "--script training/train_ddp.py submits the bundled example.",
        )


def amount_of(prepared: "Prepared") -> str:
    """How many files the project has, with the batch script, and their size."""
    content = prepared.submission.content
    count = len(content.entries) + (not prepared.submission.file)
    return f"{counted(count, 'file')} ({readable_size(content.size)})"


def warn(prepared: "Prepared", *others: "Prepared") -> None:
    """Point out what the user may not have meant; of others, what differs from the first."""
    files = prepared.submission.files
    notes = dict.fromkeys(note for one in (prepared, *others) for note in one.notes)
    for note in filter(None, (*files.notices, files.secrets_notice(), *notes)):
        say(note)
    if prepared.submission.content.size > LARGE:
        say("the project is large; list what the job does not need in .slurmgenignore")


def check_follow(follow: bool, *, is_array: bool) -> None:
    """Refuse to follow an array.

    Raises:
        RequestError: it is one.
    """
    if follow and is_array:
        raise RequestError(
            "--follow shows one log, and each task of an array has its own",
            "Leave out --follow; `slurmgen logs -f ID_TASK` follows one.",
        )


def follow_log(transport: Transport, record: Record, route: Route, *, err: bool = True) -> None:
    """Show the log of a job until it ends; exits with 1 unless it is COMPLETED."""
    job = job_id(record)
    path = find_log(transport, record, job)
    for state in job_states(transport, job):
        if state.state == "PENDING":
            reason = f" ({state.reason})" if state.reason else ""
            say(f"job {job} is PENDING{reason}; its log follows when it starts")
    follow_to_end(transport, route, job, path, err=err)


class Printer(Observer):
    """Prints each event of a submission to stderr, and its result to stdout."""

    def __init__(self, show: Callable[[Sequence[Outcome]], None] = lambda _: None, *, follow: bool = False):
        self.arrays: Sequence[Prepared] = ()
        self._show, self._follow = show, follow

    def questions(self) -> Terminal | None:
        """See Observer."""
        return terminal_prompt()

    def login(self, route: Route, *, starts: bool) -> Login:
        """See Observer; the terminal may ask for a password."""
        return Login(route, terminal_prompt(), starts=starts)

    def excluded(self, nodes: Sequence[BadNode]) -> None:
        """See Observer."""
        say_excluded(nodes)

    def planned(self, *, is_array: bool) -> None:
        """See Observer."""
        check_follow(self._follow, is_array=is_array)

    def prepared(self, arrays: Sequence[Prepared]) -> None:
        """See Observer."""
        self.arrays = arrays

    def connected(self, where: str, entry: Record) -> None:
        """See Observer."""
        prepared, submission = self.arrays[0], self.arrays[0].submission
        warn(*self.arrays)
        if entry.key != prepared.record.key:
            say(f"the submission of {entry.submitted} is unsettled; checking whether it became a job")
        say(f"submitting {amount_of(prepared)} to {where}")
        if submission.login_script:
            log = f"{submission.parent}/before_login/{submission.login_hash}.log"
            say(f"before_login runs there first, unless the same lines have run before; its output: {log}")

    def sending(self) -> AbstractContextManager[Count | None]:
        """A bar on a terminal, and nothing elsewhere."""
        return _bar()

    def submitted(self, outcomes: Sequence[Outcome]) -> None:
        """See Observer."""
        self._show(outcomes)

    def not_recorded(self, record: Record, error: ConfigError) -> None:
        """See Observer."""
        say(
            f"warning: job {record.id} is submitted, in {record.folder}, but not in your records: "
            f"{error.fact}. Name its site with --site {record.site}."
        )


class LinePrinter(Printer):
    """Prints lines alone: several sites are sent to at the same time, and would share one bar."""

    def sending(self) -> AbstractContextManager[Count | None]:
        """See Observer."""
        return nullcontext()


@contextmanager
def printed(work: Work, how: How, printer: Printer) -> Iterator[Sequence[Outcome]]:
    """Submit a job, and print the results; the connection stays open within the block."""
    with submit(work, how, printer) as outcomes:
        for prepared, outcome in zip(printer.arrays, outcomes, strict=True):
            say_result(prepared, outcome)
        yield outcomes


@contextmanager
def _bar() -> Iterator[Count | None]:
    if not (sys.stderr and sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console  # slow to import, and for a terminal only
    from rich.progress import BarColumn, Progress, TimeRemainingColumn

    columns = ("sending", BarColumn(), "{task.description}", TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, visible=False)

        def count(part: int, total: int) -> None:
            sent = int(bar.tasks[task].completed) + part
            amount = f"{readable_size(sent)} of {readable_size(total)}"
            bar.update(task, completed=sent, total=max(total, 1), description=amount, visible=True)

        yield count
