"""What `slurmgen resubmit` submits: the job of a recorded request, or a batch script as it was."""

from contextlib import nullcontext
from pathlib import Path

import click
from msgspec import Struct, structs

from slurmgen.cli.job_command import typed
from slurmgen.cli.paths import cache_dir
from slurmgen.cli.resubmit_proposal import Connection, proposed
from slurmgen.cli.sending_options import Sending
from slurmgen.errors import RequestError
from slurmgen.job_options import JobOptions
from slurmgen.job_spec import JobSpec
from slurmgen.jobs.resubmission import Ready, Resubmission, ready
from slurmgen.jobs.resubmit import Original
from slurmgen.jobs.script_options import refuse_others
from slurmgen.jobs.sweep_again import Target, named_tasks, tasks_that_failed
from slurmgen.remote.route import Route
from slurmgen.request import Request, merge
from slurmgen.sweep import Sweep


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
