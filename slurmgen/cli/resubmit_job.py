"""What `slurmgen resubmit` submits: the job of a recorded request, or a batch script as it was."""

from collections.abc import Sequence
from typing import Any

import click
from msgspec import Struct, structs

from slurmgen.cli.paths import cache_dir
from slurmgen.cli.resubmit_proposal import Connection, proposed
from slurmgen.cli.sending_options import Sending
from slurmgen.cli.submit_file import refuse_options
from slurmgen.cli.submit_job import with_command
from slurmgen.cli.submit_output import notes_of
from slurmgen.errors import RequestError
from slurmgen.job_spec import JobOptions, JobSpec
from slurmgen.jobs import resubmit
from slurmgen.jobs.prepare import Prepared
from slurmgen.jobs.resubmit import Original
from slurmgen.jobs.script_again import prepare_stored_script
from slurmgen.jobs.status import query_site, save_final_states
from slurmgen.jobs.sweep_again import Target, arrays_of_record, failed_tasks, named_tasks
from slurmgen.jobs.sweep_arrays import arrays_of
from slurmgen.jobs.sweep_report import joined
from slurmgen.remote.route import Route, find_route
from slurmgen.request import Request, merge
from slurmgen.slurm.commands import JobId
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


class Made(Struct, frozen=True):
    """What is submitted."""

    arrays: Sequence[Prepared]
    "More than one only for a sweep beyond the site's array size."
    notes: tuple[str, ...] = ()
    "What the user may not have meant."
    project: str = ""
    "The folder whose files as they are now are sent; empty for those that the original ran."


def route_again(original: Original, choices: Choices, route_values: dict[str, Any]) -> Route:
    """The route of the new job: that of the original, or to the site that the user names.

    Raises:
        RequestError: the request is wrong, or contradicts a batch script.
        ConfigError: slurmgen.toml, personal.toml or a profile is wrong.
    """
    route, options = original.job.route, choices.options
    if original.kept.batch_script:
        _refuse_changes(original, choices)
        return route
    spec = resubmit.again(original, options.request, options.site)
    return route if spec.site.name == route.site else find_route(spec.site, spec.personal, **route_values)


def made_again(original: Original, choices: Choices, connection: Connection, route: Route) -> Made:
    """The job of a recorded request, with the changes that the user asks for or accepts."""
    spec = choices.sending.on_good_nodes(_changed(original, choices, connection), route.via)
    sending = choices.sending
    made = resubmit.prepare_again(
        original,
        spec,
        route,
        present_files=choices.present_files,
        remote_dir=sending.remote_dir,
        max_size=sending.max_size,
        send=sending.send,
        after=choices.after,
        cache_dir=cache_dir(),
    )
    plan = spec.plan()
    arrays = arrays_of(with_command(made.prepared), plan, lambda one: spec.render(one, cache_dir()))
    return Made(arrays, tuple(notes_of(plan)), str(spec.project_dir) if made.present_files else "")


def _changed(original: Original, choices: Choices, connection: Connection) -> JobSpec:
    """The job with all changes."""
    site = choices.options.site
    changes = merge(choices.options.request, _only_some(original, choices, connection))
    spec = resubmit.again(original, changes, site)
    if choices.unchanged:
        return spec
    more = proposed(original, spec, changes, connection, as_proposed=choices.as_proposed)
    return resubmit.again(original, merge(changes, more), site) if more else spec


def _only_some(original: Original, choices: Choices, connection: Connection) -> Request:
    """The change of the request that selects tasks of a sweep; none for a whole job."""
    target = choices.target
    if choices.failed and target.names_tasks:
        raise click.UsageError("--failed selects tasks of a whole sweep: name the sweep.")
    if target.names_tasks:
        return Request(sweep=Sweep(tasks=named_tasks(original.record, target)))
    if not choices.failed:
        return Request()
    jobs = [
        structs.replace(original.job, id=JobId(one.id, one.cluster), record=one)
        for one in arrays_of_record(original.record)
    ]
    reports = query_site(connection.to(original.job.route), jobs, explain=False)
    save_final_states(reports)
    (report,) = joined(reports)
    return Request(sweep=Sweep(tasks=failed_tasks(report)))


def script_again(original: Original, choices: Choices, connection: Connection, _route: Route) -> Made:
    """A batch script that was submitted as it is, from its snapshot."""
    transport = connection.to(original.job.route)
    return Made([with_command(prepare_stored_script(transport, original, choices.after))])


def _refuse_changes(original: Original, choices: Choices) -> None:
    """Refuse what a batch script does not have.

    Raises:
        RequestError: an option has no effect.
    """
    file, site = original.kept.batch_script, choices.options.site
    refuse_options(choices.options, file)
    others = {
        "--present-files": choices.present_files,
        "--as-proposed": choices.as_proposed,
        "--failed": choices.failed,
        f"--site {site}": site not in (None, original.kept.site),
        "a task": choices.target.names_tasks,
    }
    for option in [name for name, is_given in others.items() if is_given]:
        raise RequestError(
            f"{file} is submitted again as it was, which excludes {option}",
            f"`slurmgen submit {file}` submits the present script and files.",
        )
