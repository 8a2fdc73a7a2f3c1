"""The options that say how a site is reached, the same for every command that goes there."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from slurmgen.cli.site_option import site_option
from slurmgen.errors import RequestError

if TYPE_CHECKING:
    from slurmgen.ledger import Record
    from slurmgen.remote.route import Route
    from slurmgen.remote.transport import Transport
    from slurmgen.slurm.commands import JobId

_JOB_ID = re.compile(r"[0-9]+(_[0-9]+)?")


def _complete_hosts(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from slurmgen.remote.aliases import aliases

    user, at, begun = incomplete.rpartition("@")
    names = aliases(ctx.params.get("ssh_config"))
    return [f"{user}{at}{name}" for name in names if name.startswith(begun)]


_OPTIONS = [
    click.option(
        "--via",
        type=click.Choice(["ssh", "local", "twin"]),
        help="How to reach the site; ssh where it has a login host, else local.",
    ),
    click.option(
        "--host",
        metavar="[USER@]HOST",
        shell_complete=_complete_hosts,
        help="Login host, or its alias in ssh_config.",
    ),
    click.option(
        "--ssh-config",
        type=click.Path(exists=True, dir_okay=False, resolve_path=True),
        envvar="SLURMGEN_SSH_CONFIG",
        show_envvar=True,
        help="Instead of ~/.ssh/config.",
    ),
    click.option(
        "--ssh-client",
        type=click.Choice(["paramiko", "openssh"]),
        help="Whose SSH; openssh can share one login among commands. paramiko if nobody says.",
    ),
]


def check_job_id(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Refuse what is no job's id, such as 12, nor that of one task of an array, such as 12_3."""
    if value is not None and not _JOB_ID.fullmatch(value):
        raise click.BadParameter(f"{value!r} is not a job id, such as 12, or 12_3 in an array.")
    return value


def route_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --via, --host, --ssh-config and --ssh-client; it is called with them by name."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def job_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ID, --site and the route options, for a job that was submitted."""
    return click.argument("job_id", metavar="ID", callback=check_job_id)(site_option(route_options(function)))


def find_job(job_id: str, site: str | None, **said: Any) -> "tuple[JobId, Route, Record | None]":
    """A submitted job: its id, the way to it, and its record if slurmgen submitted it.

    Raises:
        RequestError: no site is named and the ledger knows none, or several.
    """
    from slurmgen.ledger import Ledger
    from slurmgen.slurm.commands import JobId

    found = Ledger().find(job_id.partition("_")[0], site)
    if len(found) > 1:
        sites = ", ".join(sorted(one.site for one in found))
        raise RequestError(f"job {job_id} is at several sites: {sites}", "Say which with --site.")
    record = found[0] if found else None
    way = _recorded(record, **said) if record else _named(job_id, site, **said)
    return JobId(job_id, record.cluster if record else ""), way, record


def _recorded(record: "Record", **said: Any) -> "Route":
    """The way the job went, but for what is said now. Whose SSH is yours to say, not the job's."""
    from slurmgen.personal import load_personal
    from slurmgen.remote.route import Route

    went = Route(
        site=record.site,
        via=record.via,
        host=record.host,
        ssh_config=record.ssh_config,
        ssh_client=load_personal(record.site).ssh_client or "paramiko",
    )
    return structs.replace(went, **{key: value for key, value in said.items() if value})


def _named(job_id: str, site: str | None, **said: Any) -> "Route":
    """The way to a site that is named, for a job that slurmgen has no record of."""
    from slurmgen.personal import load_personal
    from slurmgen.profiles import load_site
    from slurmgen.remote.route import route

    if site is None:
        raise RequestError(
            f"job {job_id} is not in your records",
            "Say where it is with --site; `slurmgen status` lists yours.",
        )
    return route(load_site(site, project_dir()), load_personal(site), **said)


def project_dir() -> Path:
    """The folder of the project that we are in, which may have site profiles of its own."""
    from slurmgen.project import find_project

    return find_project(Path.cwd())[0]


def reach(way: "Route", *, asks: bool = True) -> "Transport":
    """Go there, asking on the terminal for what only a person knows, or asking nobody."""
    from slurmgen.remote.route import open_route
    from slurmgen.remote.terminal import asker

    environment = _twin_environment(way.site) if way.via == "twin" else None
    return open_route(way, asker() if asks else None, environment)


def _twin_environment(site: str) -> dict[str, str]:
    from slurmgen import twin

    return twin.find(site).environ()
