"""The options that say how a site is reached, the same for every command that goes there."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from slurmgen.cli.site_option import not_empty, site_option
from slurmgen.errors import RequestError

if TYPE_CHECKING:
    from slurmgen.jobs.ledger import Record
    from slurmgen.jobs.status import Named
    from slurmgen.remote.background import BackgroundLogin
    from slurmgen.remote.route import Route
    from slurmgen.remote.transport import Transport
    from slurmgen.slurm.commands import JobId

_JOB_ID = re.compile(r"[0-9]+(_[0-9]+)?")
LAST = "last"
"Names the job that was submitted last."


def _complete_hosts(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from slurmgen.remote.ssh.host_names import aliases

    user, at, begun = incomplete.rpartition("@")
    names = aliases(ctx.params.get("ssh_config"))
    return [f"{user}{at}{name}" for name in names if name.startswith(begun)]


_OPTIONS = [
    click.option(
        "--via",
        type=click.Choice(["ssh", "local", "twin"]),
        help="How to reach the site; default: ssh if it has a login host, else local.",
    ),
    click.option(
        "--host",
        metavar="[USER@]HOST",
        callback=not_empty,
        shell_complete=_complete_hosts,
        help="Login host, or its alias in ssh_config; default: that of personal.toml or the profile.",
    ),
    click.option(
        "--ssh-config",
        type=click.Path(exists=True, dir_okay=False, resolve_path=True),
        envvar="SLURMGEN_SSH_CONFIG",
        show_envvar=True,
        help="OpenSSH configuration; default: ~/.ssh/config.",
    ),
    click.option(
        "--ssh-client",
        type=click.Choice(["paramiko", "openssh"]),
        help="SSH client; openssh can share one login among commands. Default: paramiko.",
    ),
]


def route_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --via, --host, --ssh-config and --ssh-client; it is called with them by name."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def jobs_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command one ID or more, --site, the route options and --json."""
    function = click.option("--json", "as_json", is_flag=True, help="Print an object, and nothing else.")(
        function
    )
    return click.argument("job_ids", metavar="ID...", nargs=-1, required=True)(
        site_option(route_options(function))
    )


def find_jobs(job_ids: Sequence[str], site: str | None, **said: Any) -> "list[Named]":
    """Submitted jobs, each as `find_job` finds it, and none of them twice."""
    from slurmgen.jobs.status import Named

    return list(dict.fromkeys(Named(*find_job(job_id, site, **said)) for job_id in job_ids))


def find_job(job_id: str, site: str | None, **said: Any) -> "tuple[JobId, Route, Record | None]":
    """A submitted job: its id, the way to it, and its record if slurmgen submitted it.

    Args:
        job_id: an id such as 12, or 12_3 for one task of an array; the name of a job, of which the last
            counts; or `last`, the last that was submitted. What looks like an id is one if a record
            has it, or if a site is named, and else may be a name.
        site: only there.
        said: the route options.

    Raises:
        RequestError: no site is named and the ledger knows none, or several; or there is no such job.
    """
    from slurmgen.slurm.commands import JobId

    if _JOB_ID.fullmatch(job_id):
        if record := _by_id(job_id, site):
            return JobId(job_id, record.cluster), _recorded(record, **said), record
        # A name may look like an id. But a site that is named may know a job of that id.
        if site or not _called(job_id, None):
            return JobId(job_id), _named(job_id, site, **said), None
    record = _by_name(job_id, site)
    return JobId(record.id, record.cluster), _recorded(record, **said), record


def _by_id(job_id: str, site: str | None) -> "Record | None":
    from slurmgen.jobs.ledger import Ledger

    found = Ledger().find(job_id.partition("_")[0], site)
    if len(found) > 1:
        sites = ", ".join(sorted(one.site for one in found))
        raise RequestError(f"job {job_id} is at several sites: {sites}", "Say which with --site.")
    return found[0] if found else None


def _called(name: str, site: str | None) -> "list[Record]":
    from slurmgen.jobs.ledger import Ledger

    return [one for one in Ledger().all() if site in (None, one.site) and name in (LAST, one.name)]


def _by_name(name: str, site: str | None) -> "Record":
    found = _called(name, site)
    if not found:
        of = f" at {site}" if site else ""
        raise RequestError(
            f"no job{'' if name == LAST else f' called {name!r}'} was submitted from here{of}",
            "A job is named by its id, by its name, or as `last`; `slurmgen status` lists yours.",
        )
    if found[-1].pending:
        raise RequestError(
            f"it is not known whether the last submission of {found[-1].name} became a job",
            "Repeat its `slurmgen submit`, which finds the job; give it up with "
            f"`slurmgen forget {found[-1].key}`; or name an earlier one by its id.",
        )
    return found[-1]


def way_of(record: "Record", **said: Any) -> "Route":
    """The way a job went, but for what is said now."""
    from slurmgen.remote.route import Route

    went = Route(**{field: getattr(record, field) for field in Route.__struct_fields__})
    return structs.replace(went, **{key: value for key, value in said.items() if value})


def _recorded(record: "Record", **said: Any) -> "Route":
    """The way the job went, but for what is said now.

    Raises:
        RequestError: it is to be reached over SSH, but is on a twin here.
    """
    way = way_of(record, **said)
    if way.via == record.via or way.via != "ssh" or way.host:
        return way
    if record.via == "twin":
        raise RequestError(
            f"job {record.id} is on the twin of {record.site} on this machine, not on {record.site} itself",
            "Leave out --via; or name the twin's own sshd with --host and --ssh-config.",
        )
    return _named(record.id, record.site, **said)


def _named(job_id: str, site: str | None, **said: Any) -> "Route":
    """The way to a site that is named, for a job that slurmgen has no record of."""
    from slurmgen.config.user import load_personal
    from slurmgen.remote.route import find_route
    from slurmgen.sites.profiles import load_site

    if site is None:
        raise RequestError(
            f"job {job_id} is not in your records",
            "Say where it is with --site; `slurmgen status` lists yours.",
        )
    return find_route(load_site(site, project_dir()), load_personal(site), **said)


def project_dir() -> Path:
    """The folder of the project that we are in, which may have site profiles of its own."""
    from slurmgen.config.project import find_project

    return find_project(Path.cwd())[0]


def reach(way: "Route", *, asks: bool = True) -> "Transport":
    """Go there, asking on the terminal for what only a person knows, or asking nobody."""
    from slurmgen.remote.route import open_route
    from slurmgen.remote.ssh.prompt import terminal_prompt

    return open_route(way, terminal_prompt() if asks else None)


def set_out(way: "Route", *, starts: bool) -> "BackgroundLogin":
    """Go there while something else is done; with `starts` false only when somebody waits for it."""
    from slurmgen.remote.background import BackgroundLogin
    from slurmgen.remote.ssh.prompt import terminal_prompt

    return BackgroundLogin(way, terminal_prompt(), starts=starts)
