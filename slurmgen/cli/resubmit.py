"""`slurmgen resubmit`: submit a job again, with changes."""

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from slurmgen.cli.after_option import after_option
from slurmgen.cli.job_command import JobCommand
from slurmgen.cli.job_output import say
from slurmgen.cli.options import changes_options
from slurmgen.cli.resubmit_output import origin, show, submit
from slurmgen.cli.route_options import connect_in_background, json_option, route_options, site_route
from slurmgen.cli.sending_options import Sending, sending_options
from slurmgen.job_options import JobOptions

if TYPE_CHECKING:
    from slurmgen.jobs.resubmit import Original


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
    from slurmgen.cli.resubmit_job import Choices, made_again, wanted_by
    from slurmgen.cli.resubmit_proposal import Connection
    from slurmgen.jobs.resubmission import route_to
    from slurmgen.jobs.sweep_again import target_of
    from slurmgen.remote.ssh.prompt import terminal_prompt

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
    from slurmgen.jobs.resubmit import find_original

    return find_original(name, site, route_values, partial(site_route, route_values))
