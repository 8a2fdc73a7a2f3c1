"""`slurmgen submit --first`: send a job to several sites, and keep the one that starts first."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from slurmgen.cli.job_output import print_json, say
from slurmgen.cli.sending_options import Sending
from slurmgen.cli.submit_file import find_file_job
from slurmgen.cli.submit_job import check_follow, follow_log, prepared_job, with_command
from slurmgen.cli.submit_output import notes_of, show, submitted_values, warn
from slurmgen.cli.submit_progress import LinePrinter
from slurmgen.cli.where import connect_without_prompt
from slurmgen.errors import RequestError, SlurmgenError
from slurmgen.job_options import JobOptions
from slurmgen.job_spec import JobSpec
from slurmgen.jobs.logins import Logins
from slurmgen.request import Request
from slurmgen.slurm.log_pattern import is_of_task
from slurmgen.text import counted, listed

if TYPE_CHECKING:
    from slurmgen.cli.objects.jobs import SubmittedFirst
    from slurmgen.jobs.first_job import FirstJob
    from slurmgen.jobs.prepare import Prepared
    from slurmgen.jobs.race import Won
    from slurmgen.jobs.races import Race
    from slurmgen.jobs.where import Option
    from slurmgen.remote.route import Route


def submit_first(
    options: JobOptions,
    sites: tuple[str, ...],
    route_values: dict[str, Any],
    sending: Sending,
    *,
    again: bool,
    dry_run: bool,
    follow: bool,
    as_json: bool,
) -> None:
    """Submit the job to all sites that could run it, and print the id of the one that starts first.

    Raises:
        RequestError, ConfigError: the request, or a profile, is wrong.
        CommandFailed: no site could run the job, or none has.
    """
    from slurmgen.jobs.first_job import FirstJob, enter
    from slurmgen.jobs.race import run
    from slurmgen.remote.ssh.prompt import terminal_prompt

    _check(options, sites, route_values)
    job = FirstJob(
        options=options,
        folder=Path.cwd(),
        sites=sites,
        route_values=route_values,
        remote_dir=sending.remote_dir,
        prepare=partial(_observed, sending, follow),
        ask=terminal_prompt(),
    )
    with Logins(connect_without_prompt) as logins:
        if dry_run:
            _show(job, sending, logins, as_json)
            return
        race, entrants = enter(job, logins, say, again=again)
        with run(race, entrants, logins.take, say, partial(_print, race, as_json)) as won:
            if follow:
                runner = won.runner
                follow_log(runner.connected(), runner.record, runner.job.id, runner.route)


def _check(options: JobOptions, sites: tuple[str, ...], route_values: dict[str, Any]) -> None:
    """Refuse what belongs to one site, and batch scripts.

    Raises:
        RequestError: it names a batch script, or a login host.
        UsageError: it names a --site.
    """
    from slurmgen.jobs.where import refuse_one_host

    if options.site:
        raise click.UsageError("--site and --first exclude each other.")
    if find_file_job(structs.replace(options, request=Request(), replace_args=False)):
        raise RequestError(
            f"{options.job} is a batch script, and --first is for jobs of slurmgen.toml or of options",
            "Name one --site; `slurmgen adopt` makes a job of slurmgen.toml from a script.",
        )
    refuse_one_host(sites, route_values)


def _prepared(sending: Sending, job: JobSpec, route: "Route") -> "tuple[Prepared, tuple[str, ...]]":
    """The submission to a site, with a gate, and what to know about the job there."""
    from slurmgen.jobs.first_job import gated

    job = sending.on_good_nodes(job, route.via)
    plan = gated(job)
    return with_command(prepared_job(job, plan, route, sending)), tuple(notes_of(plan))


def _observed(sending: Sending, follow: bool, job: JobSpec, route: "Route") -> "tuple[Prepared, LinePrinter]":
    """The submission to a site, and what prints how it proceeds."""
    prepared, notes = _prepared(sending, job, route)
    check_follow(follow, is_array=is_of_task(prepared.submission.output))
    return prepared, LinePrinter(prepared, notes)


def _show(job: "FirstJob", sending: Sending, logins: Logins, as_json: bool) -> None:
    """Show what would be submitted to the site of the earliest estimate."""
    from slurmgen.jobs.first import of_each
    from slurmgen.jobs.first_job import sites_that_can_run

    def make(one: "Option") -> "tuple[str, Prepared, tuple[str, ...]]":
        name = f"{one.site} ({one.partition})" if one.partition else one.site
        return name, *_prepared(sending, *job.at(one.site, one.partition))

    made = of_each(sites_that_can_run(job, logins, say), make, say)
    count, sites = counted(len(made), "site"), listed([name for name, _, _ in made])
    say(f"would submit to {count}, of which the first to start would keep its job: {sites}")
    _, prepared, notes = made[0]
    warn(prepared, notes)
    show(prepared, as_json)


def _print(race: "Race", as_json: bool, won: "Won") -> None:
    """Print the id of the job that runs, or the object.

    Raises:
        SlurmgenError: it cannot be printed; the error names the job.
    """
    try:
        print_json(_object(race, won)) if as_json else click.echo(won.runner.record.id)
    except OSError as error:
        raise SlurmgenError(
            f"{won.runner.name} runs the program, but its id could not be printed: {error.strerror}",
            "The same command prints it.",
        ) from None


def _object(race: "Race", won: "Won") -> "SubmittedFirst":
    from slurmgen.cli.objects.jobs import SubmittedFirst

    values, others = submitted_values(won.runner.record), list(won.losers)
    return SubmittedFirst(**values, earlier=won.runner.is_earlier, race=race.key, others=others)
