"""`slurmgen where`: at which sites a job could run, and where it would start first."""

from pathlib import Path
from typing import Any

import click
from msgspec import structs

from slurmgen.cli.job_objects import WhereList
from slurmgen.cli.options import (
    JobCommand,
    connect,
    json_option,
    route_options,
    several_sites_options,
)
from slurmgen.cli.output import color_option, console, print_json, say
from slurmgen.cli.tables import print_where_table
from slurmgen.config.project import DEFAULT_SITE, find_project, sites_of
from slurmgen.config.user import personal_sites
from slurmgen.errors import SlurmgenError, UnknownJob
from slurmgen.job_spec import JobOptions, load_spec
from slurmgen.ledger.places import route_of
from slurmgen.remote.route import Route
from slurmgen.remote.ssh.prompt import terminal_prompt
from slurmgen.remote.transport import Transport
from slurmgen.submit.where import Option, Place, ask_all, place, refuse_one_host


@click.command(
    "where",
    cls=JobCommand,
    examples={
        "slurmgen where train": "Compare all your sites for the job train of slurmgen.toml",
        "slurmgen where train --site daic --site olivia --gpus 8": "Compare two sites, with 8 GPUs",
        "slurmgen where train.py --time 1:00:00 --json": "Print JSON for a program",
    },
)
@several_sites_options
@route_options
@color_option
@json_option
def command(
    options: JobOptions, sites: tuple[str, ...], color: str, as_json: bool, **route_values: Any
) -> int:
    """Show at which sites a job could run, and where it would start first.

    Each site gets one login, all at the same time, and has 5 seconds to reply; there is no prompt for a
    password. For each partition the table shows whether the profile or Slurm refuses the job, when Slurm
    expects it to start, the GPUs of its type (or the CPUs) that are free now, the jobs that wait, and the
    price of its whole time limit in the site's unit. The starts are estimates: other jobs may end earlier,
    or be submitted with a higher priority. Nothing is submitted.

    JOB is a job of slurmgen.toml, as for `slurmgen submit`. Exits with 1 if no site could run the job.
    """
    names = list(dict.fromkeys(sites)) or _own_sites(options.job)
    refuse_one_host(names, route_values)
    said: set[str] = set()
    found = [_place(structs.replace(options, site=name), route_values, said) for name in names]
    asked = ask_all([one for one in found if not isinstance(one, Exception)], connect_without_prompt)
    asked += [
        Option(site=name, error=str(one))
        for name, one in zip(names, found, strict=True)
        if isinstance(one, Exception)
    ]
    asked.sort(key=lambda one: not one.can_run)
    can_run = any(one.can_run for one in asked)
    if as_json:
        print_json(WhereList(can_run=can_run, options=asked))
    else:
        print_where_table(asked, console(color))
    return 0 if can_run else 1


def _own_sites(job: str | None) -> list[str]:
    _, project = find_project(Path.cwd())
    of_project = [project.site] if project.site else []
    of_job = sites_of(project, job) if job in project.job else ()
    names = dict.fromkeys([*personal_sites(), *of_project, *of_job])
    return [name for name in names if name != DEFAULT_SITE or project.site == name] or [DEFAULT_SITE]


def _place(options: JobOptions, route_values: dict[str, Any], said: set[str]) -> Place | SlurmgenError:
    try:
        job = load_spec(options, Path.cwd())
        for notice in job.notices:
            if notice not in said:
                say(notice)
        said.update(job.notices)
        return place(
            job, route_of(job.site, job.personal, job.project_dir, terminal_prompt(), **route_values)
        )
    except UnknownJob:
        raise
    except SlurmgenError as error:
        return error


def connect_without_prompt(route: Route) -> Transport:
    """Log in without a prompt: several sites would ask at the same time."""
    return connect(route, interactive=False)
