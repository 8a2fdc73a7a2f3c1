"""`slurmgen submit --first`: choose one of several sites, once."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from slurmgen.cli.job_output import say
from slurmgen.cli.submit_file import find_file_job
from slurmgen.cli.where import connect_without_prompt, refuse_one_host
from slurmgen.errors import RequestError
from slurmgen.job_spec import JobOptions, load_spec
from slurmgen.request import Request

if TYPE_CHECKING:
    from slurmgen.jobs.ledger import Record
    from slurmgen.jobs.prepare import Prepared


def choose(
    options: JobOptions,
    sites: Sequence[str],
    route_values: dict[str, Any],
    remote_dir: str | None = None,
    *,
    again: bool,
) -> tuple[JobOptions, str]:
    """The options for the chosen site, and the fingerprint of the command.

    An unsettled submission of the same command decides; otherwise the sites are asked.

    Raises:
        RequestError, ConfigError: the request, or a profile, is wrong.
        CommandFailed: no site could run the job.
    """
    from slurmgen.jobs import first
    from slurmgen.jobs.where import ask_all, place
    from slurmgen.remote.route import find_route

    if options.site:
        raise click.UsageError("--site and --first exclude each other.")
    if find_file_job(structs.replace(options, request=Request(), replace_args=False)):
        raise RequestError(
            f"{options.job} is a batch script, and --first is for jobs of slurmgen.toml or of options",
            "Name one --site; `slurmgen adopt` makes a job of slurmgen.toml from a script.",
        )
    names = list(dict.fromkeys(sites))
    refuse_one_host(names, route_values)
    jobs = [load_spec(structs.replace(options, site=name), Path.cwd()) for name in names]
    routes = [find_route(job.site, job.personal, **route_values) for job in jobs]
    places = [
        f"{route.site}\0{route.via}\0{route.host}\0{remote_dir or job.personal.remote_dir}"
        for job, route in zip(jobs, routes, strict=True)
    ]
    command = first.fingerprint(jobs, places)
    choice = None if again else first.earlier(command)
    if choice is None:
        asked = [place(job, route) for job, route in zip(jobs, routes, strict=True)]
        choice = first.best(ask_all(asked, connect_without_prompt))
    where = f"{choice.site}, partition {choice.partition}" if choice.partition else choice.site
    say(f"submitting to {where}: {choice.why}")
    request = structs.replace(options.request, partition=choice.partition)
    return structs.replace(options, site=choice.site, request=request), command


def claim_one(arrays: "list[Prepared]", command: str, *, again: bool) -> "tuple[list[Prepared], Record]":
    """Choose the site for good, before anything is sent; the submission and its entry."""
    from slurmgen.jobs.first import claim

    if len(arrays) > 1:
        raise RequestError(
            f"the sweep needs {len(arrays)} arrays, and --first is for a single job", "Name one --site."
        )
    prepared, entry = claim(arrays[0], command, again=again)
    return [prepared], entry
