"""`slurmgen resubmit`: submit a job again, with changes."""

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import click
from msgspec import Struct, structs

from slurmgen.cli.answers import is_terminal
from slurmgen.cli.options import (
    JobCommand,
    Sending,
    after_option,
    cache_dir,
    changes_options,
    connect,
    connect_in_background,
    json_option,
    route_options,
    sending_options,
    site_route,
    typed,
)
from slurmgen.cli.output import print_json, print_script, say
from slurmgen.errors import RequestError, SlurmgenError
from slurmgen.job_spec import JobOptions, JobSpec
from slurmgen.remote.route import Route
from slurmgen.request.model import Request, Sweep, merge
from slurmgen.slurm.sbatch_options import given
from slurmgen.submit.again import Original, Ready, Resubmission, Target, named_tasks, ready, tasks_that_failed
from slurmgen.submit.script import refuse_others

if TYPE_CHECKING:
    from slurmgen.remote.route import BackgroundLogin
    from slurmgen.remote.transport import Transport
    from slurmgen.status.report import Report
    from slurmgen.submit.proposal import Proposal, Room
    from slurmgen.submit.submission import Outcome


@click.command(
    "resubmit",
    cls=JobCommand,
    examples={
        "slurmgen resubmit 1234567": "Submit a job again, as it was",
        "slurmgen resubmit last --as-proposed": "The last one, with the memory or time that it lacked",
        "slurmgen resubmit train --failed": "The failed tasks of a sweep, as a new array",
        "slurmgen resubmit train --gpus 8 --present-files": "With more GPUs, and the files as they are now",
        "slurmgen resubmit train --site olivia --present-files": "At another site",
    },
)
@changes_options
@route_options
@click.option(
    "--present-files", is_flag=True, help="Send the project as it is now; default: the files that ID ran."
)
@click.option(
    "--as-proposed", is_flag=True, help="After OUT_OF_MEMORY or TIMEOUT, ask for as much as is proposed."
)
@click.option("--failed", is_flag=True, help="Of a sweep: only the tasks that failed.")
@click.option("--unchanged", is_flag=True, help="Do not propose more memory or time.")
@sending_options("with --present-files: ")
@after_option("default: those that ID waited for")
@click.option(
    "--again",
    is_flag=True,
    help="Submit a new job even if the outcome of an earlier resubmission is unknown.",
)
@click.option("--dry-run", is_flag=True, help="Print how the script differs from that of ID; submit nothing.")
@json_option
def command(
    options: JobOptions,
    present_files: bool,
    as_proposed: bool,
    unchanged: bool,
    failed: bool,
    sending: Sending,
    after: tuple[str, ...],
    again: bool,
    dry_run: bool,
    as_json: bool,
    **route_values: Any,
) -> None:
    """Submit a job again, with changes.

    The new job is what ID asked for, with the options of this command on top. ID is a job id, a job name, of
    which the last submitted counts, or `last`; of a sweep also some tasks, as 12_3 or train[lr=1e-3]. The new
    job runs the files that ID ran, which the cluster keeps, or with --present-files the project as it is now.
    At another site, the options of ID count on top of the present slurmgen.toml.

    After OUT_OF_MEMORY or TIMEOUT, more memory or time is proposed, and a terminal asks whether to use it.
    After a failure, repeat the command: it finds the new job, or submits it if there is none. It never
    submits a second one. SCRIPT ARGS replace those of ID. Of a batch script that was submitted as it is,
    options such as --time override the header, and others are refused.
    """
    from slurmgen.remote.ssh.prompt import terminal_prompt
    from slurmgen.submit.again import route_to, target_of

    if as_proposed and unchanged:
        raise click.UsageError("--as-proposed and --unchanged exclude each other.")
    target = target_of(str(options.job))
    choices = Choices(options, target, present_files, as_proposed, unchanged, failed, after, sending)
    original = _find(target.job, options.site, route_values)
    wanted = wanted_by(original, choices)
    route = route_to(wanted, terminal_prompt(), **route_values)
    with connect_in_background(route, starts=not dry_run) as login, Connection(login, route) as connection:
        made = made_again(wanted, choices, connection, route)
        say(origin(original, made))
        if dry_run:
            show(connection, original, made, as_json=as_json)
        else:
            submit(connection, original, made, again=again, as_json=as_json)


def _find(name: str, site: str | None, route_values: dict[str, Any]) -> "Original":
    from slurmgen.submit.again import find_original

    return find_original(name, site, route_values, partial(site_route, route_values))


class Connection:
    """The connection of a command that uses it more than once; it is made when it is first used."""

    def __init__(self, login: "BackgroundLogin", route: "Route") -> None:
        self._login = login
        self._route = route
        self._open: dict[Route, Transport] = {}

    def transport(self) -> "Transport":
        """The connection to the site of the new job; raises what the login raises."""
        return self.to(self._route)

    def to(self, route: "Route") -> "Transport":
        """The connection of a route, which may be another one."""
        if route not in self._open:
            self._open[route] = self._login.transport() if route == self._route else connect(route)
        return self._open[route]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for transport in self._open.values():
            transport.close()


def proposed(wanted: "Resubmission", connection: Connection, *, as_proposed: bool) -> Request | None:
    """The proposed memory or time, if the user wants it; None without a proposal.

    Args:
        wanted: the resubmission without a proposal.
        connection: to the site, where the end of the original is queried if the ledger does not have it.
        as_proposed: the user wants it.

    Raises:
        RequestError: the user has to decide and there is no terminal, or there is nothing to propose.
        SnapshotGone: the cluster no longer has the files that the job ran.
    """
    from slurmgen.submit.again import require_stored
    from slurmgen.submit.proposal import lacked, proposal

    original = wanted.original
    report = _report(original, connection)
    end = report.main, report.why
    found = proposal(*end, _room(wanted, connection)) if lacked(*end) else None
    if found and found.request and _names(wanted.changes, found.request):
        found = None
    if found and found.request:
        if not wanted.present_files:
            require_stored(connection.to(original.job.route), original.record)
        return _decided(original.record.id, found, as_proposed=as_proposed)
    if found or as_proposed:
        fact = found.why if found else f"it is {report.state}"
        _nothing(f"nothing is proposed for job {original.record.id}: {fact}", as_proposed=as_proposed)
    return None


def _nothing(fact: str, *, as_proposed: bool) -> None:
    if as_proposed:
        raise RequestError(fact, "Leave out --as-proposed, or name what the job needs.")
    say(fact)


def _room(wanted: "Resubmission", connection: Connection) -> "Room":
    """What the new job would ask for without the proposal, and the most that it could ask for."""
    from slurmgen.submit.again import next_room

    return next_room(
        wanted.original, wanted.changes, wanted.site, lambda place: nullcontext(connection.to(place))
    )


def _names(changes: Request, wanted: Request) -> bool:
    """Whether the user has decided what would be proposed."""
    own = given(changes.sbatch)
    if wanted.time:
        return bool(changes.time or "time" in own)
    return bool(changes.mem or own.keys() & {"mem", "mem-per-cpu", "mem-per-gpu"})


def _report(original: "Original", connection: Connection) -> "Report":
    """How the original ended: from the ledger, else from its site."""
    from slurmgen.status.query import query_and_save, recall, unreached

    job = original.job
    if not job.needs_query and (known := recall(job, "")):
        return known
    try:
        (report,) = query_and_save(connection.to(job.route), [job])
    except SlurmgenError as error:
        say(f"how job {job.id} ended is not known: {error.fact}")
        return unreached(job, error)
    if report.states and not report.ended:
        say(f"warning: job {job.id} is {report.state}; this is a second one")
    return report


def _decided(job: str, found: "Proposal", *, as_proposed: bool) -> Request | None:
    """The proposal, if the option or the user at the terminal accepts it."""
    say(f"job {job}: {found.why}; proposed: {found.words} (an estimate)")
    if as_proposed:
        return found.request
    if is_terminal():
        return found.request if _accepted(found.words) else None
    accept, repeat = _command("--as-proposed"), _command("--unchanged")
    raise RequestError(
        f"the same request is likely to fail again: {found.why}",
        f"Use the proposal: `{accept}`; or repeat it as it was: `{repeat}`.",
    )


def _accepted(words: str) -> bool:
    """Whether the user at the terminal accepts a proposal, or wants the job as it was.

    Raises:
        Abort: the user wants neither.
    """
    say(f"y: submit it with {words}; n: submit it as it was; cancel: submit nothing")
    answers = click.Choice(["y", "n", "cancel"], case_sensitive=False)
    answer = click.prompt(f"Use {words}? [y/n/cancel]", type=answers, show_choices=False, err=True)
    if answer == "cancel":
        say("nothing was submitted")
        raise click.Abort
    return bool(answer == "y")


def _command(option: str) -> str:
    """This command line with an option."""
    return typed(click.get_current_context()).replace(" resubmit ", f" resubmit {option} ", 1)


class Choices(Struct, frozen=True):
    """What the user chose."""

    options: JobOptions
    target: Target
    present_files: bool
    as_proposed: bool
    unchanged: bool
    failed: bool
    after: tuple[str, ...]
    sending: Sending


def wanted_by(original: Original, choices: Choices) -> Resubmission:
    """What the options ask for.

    Raises:
        RequestError: the options contradict a batch script.
    """
    if original.kept.batch_script:
        _refuse_changes(original, choices)
    return Resubmission(
        original=original,
        changes=choices.options.request,
        site=choices.options.site,
        present_files=choices.present_files,
        upload=choices.sending.upload(),
        after=choices.after,
        command=typed(click.get_current_context()),
        directory=str(Path.cwd()),
        cache_dir=cache_dir(),
    )


def made_again(wanted: Resubmission, choices: Choices, connection: Connection, route: Route) -> Ready:
    """The submission, with the changes that the user asks for or accepts."""
    wanted = _changed(wanted, choices, connection)

    def on_nodes(job: JobSpec, route: Route) -> JobSpec:
        return choices.sending.on_good_nodes(job, route.via)

    return ready(wanted, route, lambda place: nullcontext(connection.to(place)), on_nodes)


def _changed(wanted: Resubmission, choices: Choices, connection: Connection) -> Resubmission:
    """The resubmission with all changes."""
    if not wanted.original.kept.batch_script:
        wanted = _with(wanted, _only_some(wanted.original, choices, connection))
    if choices.unchanged:
        return wanted
    return _with(wanted, proposed(wanted, connection, as_proposed=choices.as_proposed) or Request())


def _with(wanted: Resubmission, more: Request) -> Resubmission:
    return structs.replace(wanted, changes=merge(wanted.changes, more))


def _only_some(original: Original, choices: Choices, connection: Connection) -> Request:
    """The change of the request that selects tasks of a sweep; none for a whole job."""
    target = choices.target
    if choices.failed and target.names_tasks:
        raise click.UsageError("--failed selects tasks of a whole sweep: name the sweep.")
    if target.names_tasks:
        return Request(sweep=Sweep(tasks=named_tasks(original.record, target)))
    if not choices.failed:
        return Request()
    tasks = tasks_that_failed(connection.to(original.job.route), original.job)
    return Request(sweep=Sweep(tasks=tasks))


def _refuse_changes(original: Original, choices: Choices) -> None:
    """Refuse what a batch script does not have.

    Raises:
        RequestError: an option has no effect.
    """
    file, site = original.kept.batch_script, choices.options.site
    refuse_others(choices.options.request, choices.options.replace_args, file)
    others = {
        "--present-files": choices.present_files,
        "--failed": choices.failed,
        f"--site {site}": site not in (None, original.kept.site),
        "a task": choices.target.names_tasks,
    }
    for option in [name for name, is_given in others.items() if is_given]:
        raise RequestError(
            f"{file} is submitted again from the same files, which excludes {option}",
            f"`slurmgen submit {file}` submits the present script and files.",
        )


def origin(original: "Original", made: "Ready") -> str:
    """Which job is submitted again, and which files it runs."""
    record = original.record
    files = f"the project as it is now, {made.project}"
    if not made.project:
        commit = f", commit {record.commit[:12]}{' with changes' * record.dirty}" if record.commit else ""
        files = f"the files that it ran, snapshot {record.snapshot[:12]}{commit}"
    return f"job {record.id} ({record.name}) of {record.submitted} again, with {files}"


def _files(made: "Ready") -> Literal["present", "snapshot"]:
    return "present" if made.project else "snapshot"


def show(connection: "Connection", original: "Original", made: "Ready", *, as_json: bool) -> None:
    """Print how the script differs from that of the original."""
    from slurmgen.cli.job_objects import ResubmitDryRun
    from slurmgen.cli.submit_output import say_options
    from slurmgen.submit.again import original_script, script_diff

    prepared = made.arrays[0]
    script = prepared.submission.script
    before = original_script(connection.to(original.job.route), original)
    diff = script_diff(before, script)
    options = prepared.submission.sbatch_options
    if as_json:
        print_json(
            ResubmitDryRun(
                resubmits=original.record.id,
                files=_files(made),
                snapshot=prepared.record.snapshot,
                script=script,
                diff=diff if before else None,
                sbatch_options=list(options),
            )
        )
        return
    for one in prepared.after:
        say(f"would depend on another job: it {one.text}")
    if not before:
        say(f"the run folder of job {original.record.id} is gone; this is the whole script")
    print_script(diff if before else script)
    if not diff:
        say("the script is the same")
    say_options(options)


def submit(
    connection: "Connection", original: "Original", made: "Ready", *, again: bool, as_json: bool
) -> None:
    """Submit the job, and print its id."""
    from slurmgen.cli.job_objects import Resubmitted
    from slurmgen.cli.submit_output import Printer, as_object, notes_of, print_id, print_ids, say_result
    from slurmgen.submit.submission import submit_arrays

    prepared, several = made.arrays[0], len(made.arrays) > 1

    def as_again(outcome: "Outcome") -> Resubmitted:
        done = structs.asdict(as_object(outcome))
        return Resubmitted(**done, resubmits=original.record.id, files=_files(made))

    def show_ids(outcomes: "Sequence[Outcome]") -> None:
        print_ids(outcomes, as_json) if several else print_id(outcomes[0], as_json, as_again)

    printer = Printer(prepared, notes_of(made.plan) if made.plan else (), show_ids)
    with submit_arrays(made.arrays, connection.transport, again=again, observer=printer) as outcomes:
        for outcome in outcomes:
            say_result(prepared, outcome)
