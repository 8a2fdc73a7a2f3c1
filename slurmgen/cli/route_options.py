"""The options for the route to a site, the same for every command that connects to one."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from slurmgen.cli.completion import complete_hosts, complete_jobs
from slurmgen.cli.site_option import not_empty, site_option

if TYPE_CHECKING:
    from slurmgen.cli.submit_file import FileJob
    from slurmgen.job_spec import JobSpec
    from slurmgen.jobs.job import Job
    from slurmgen.remote.background import BackgroundLogin
    from slurmgen.remote.route import Route
    from slurmgen.remote.transport import Transport


def _existing_file(context: click.Context, option: click.Parameter, path: str | None) -> str | None:
    """Refuse a missing file. One of the variable is missed when a host is contacted."""
    is_typed = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
    if path and is_typed and not Path(path).exists():
        raise click.BadParameter(f"File {path!r} does not exist.")
    return path


via_option = click.option(
    "--via",
    type=click.Choice(["ssh", "local", "twin"]),
    help="Use SSH, the Slurm of this machine, or a twin; default: ssh if the site has a login host.",
)
_OPTIONS = [
    via_option,
    click.option(
        "--host",
        metavar="[USER@]HOST",
        callback=not_empty,
        shell_complete=complete_hosts,
        help="Login host or its alias in ssh_config; default: from personal.toml or the profile.",
    ),
    click.option(
        "--ssh-config",
        type=click.Path(dir_okay=False, resolve_path=True),
        callback=_existing_file,
        envvar="SLURMGEN_SSH_CONFIG",
        show_envvar=True,
        help="OpenSSH configuration file; default: ~/.ssh/config.",
    ),
    click.option(
        "--ssh-client",
        type=click.Choice(["paramiko", "openssh"]),
        help="SSH client; openssh can share a login between commands; default: paramiko.",
    ),
]


def route_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --via, --host, --ssh-config and --ssh-client; it receives them by name."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
json_format_option = click.option("--json", "as_json", is_flag=True, help="The same as --format json.")


def jobs_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command one ID or more, --site, the route options and --json."""
    ids = click.argument("job_ids", metavar="ID...", nargs=-1, required=True, shell_complete=complete_jobs)
    return ids(site_option(route_options(json_option(function))))


def find_jobs(
    job_ids: Sequence[str], site: str | None, *, to_cancel: bool = False, **options: Any
) -> "list[Job]":
    """The submitted jobs that the user names, without duplicates; `to_cancel` as for `lookup.find_jobs`."""
    from slurmgen.jobs.lookup import find_jobs

    return find_jobs(job_ids, site, options, partial(site_route, options), to_cancel=to_cancel)


def find_one(job_id: str, site: str | None, **options: Any) -> "Job":
    """The only submitted job that the user names."""
    from slurmgen.jobs.lookup import only_one

    return only_one(find_jobs([job_id], site, **options), job_id)


def project_dir() -> Path:
    """The folder of the current project, which may have site profiles of its own."""
    from slurmgen.config.project import find_project

    return find_project(Path.cwd())[0]


def site_route(options: dict[str, Any], site: str) -> "Route":
    """The route to a site; the terminal asks about a place that only the project names."""
    from slurmgen.jobs import lookup
    from slurmgen.remote.ssh.prompt import terminal_prompt

    return lookup.site_route(site, Path.cwd(), options, terminal_prompt())


def route_of(job: "JobSpec | FileJob", values: dict[str, Any], *, connects: bool = True) -> "Route":
    """The route to the site of a job, as `site_route`; nothing is asked unless the command connects."""
    from slurmgen.jobs import places
    from slurmgen.remote.ssh.prompt import terminal_prompt

    ask = terminal_prompt() if connects else None
    return places.route_of(job.site, job.personal, job.project_dir, ask, connects=connects, **values)


def connect(route: "Route", *, interactive: bool = True) -> "Transport":
    """Open a connection. Only if `interactive`, the terminal prompts for passwords and the like."""
    from slurmgen.remote.route import open_route
    from slurmgen.remote.ssh.prompt import terminal_prompt

    return open_route(route, terminal_prompt() if interactive else None)


def connect_in_background(route: "Route", *, starts: bool) -> "BackgroundLogin":
    """Connect while the command does other work; without `starts`, not before the connection is needed."""
    from slurmgen.remote.background import BackgroundLogin
    from slurmgen.remote.ssh.prompt import terminal_prompt

    return BackgroundLogin(route, terminal_prompt(), starts=starts)
