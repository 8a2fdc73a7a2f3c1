"""`slurmgen submit --first`: send a job to several sites, and keep the one that starts first."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct, structs

from slurmgen.cli.job_output import print_json, say
from slurmgen.cli.sending_options import Sending
from slurmgen.cli.submit_file import find_file_job
from slurmgen.cli.submit_job import check_follow, follow_log, prepared_job, with_command
from slurmgen.cli.submit_output import notes_of, show, submitted_values, warn
from slurmgen.cli.submit_progress import Printer
from slurmgen.cli.where import connect_without_prompt, refuse_one_host
from slurmgen.errors import RequestError
from slurmgen.job_spec import JobOptions, JobSpec, load_spec
from slurmgen.jobs.logins import Logins
from slurmgen.jobs.prepare import Prepared
from slurmgen.request import Request
from slurmgen.text import listed

if TYPE_CHECKING:
    from slurmgen.jobs.ledger import Record
    from slurmgen.jobs.race import Entrant, Won
    from slurmgen.jobs.races import Race
    from slurmgen.jobs.where import Option
    from slurmgen.remote.route import Route

LIMIT = 30.0
"Seconds for each site to estimate the start: a site that is too slow for `where` may still be first."


class FirstJob(Struct, frozen=True):
    """One job for several sites, and how it is sent."""

    options: JobOptions
    sites: tuple[str, ...]
    route_values: dict[str, Any]
    sending: Sending

    def command(self) -> str:
        """A hash of the command: what its sites would get, and where their keys have their records."""
        from slurmgen.jobs.first import fingerprint

        places = [self.at(site) for site in self.sites]
        folders = [
            f"{route.site}\0{route.via}\0{route.host}\0{self.sending.remote_dir or job.personal.remote_dir}"
            for job, route in places
        ]
        return fingerprint([job for job, _ in places], folders)

    def at(self, site: str, partition: str | None = None) -> "tuple[JobSpec, Route]":
        """The job at one of the sites, and the route to it."""
        from slurmgen.remote.route import find_route

        request = self.options.request
        asked = structs.replace(request, partition=partition or request.partition)
        job = load_spec(structs.replace(self.options, site=site, request=asked), Path.cwd())
        return job, find_route(job.site, job.personal, **self.route_values)

    def prepared(self, site: str, partition: str | None) -> "tuple[Prepared, tuple[str, ...]]":
        """The submission to a site, with a gate, and what to know about the job there."""
        from slurmgen.plan.gate import GATE_SECONDS

        job, route = self.at(site, partition)
        job = self.sending.on_good_nodes(job, route.via)
        plan = structs.replace(job.plan(), gate=GATE_SECONDS)
        if plan.sweep and len(plan.sweep.arrays) > 1:
            raise RequestError(
                f"the sweep needs {len(plan.sweep.arrays)} arrays, and --first is for a single job",
                "Name one --site.",
            )
        made = prepared_job(job, plan, route, self.sending)
        return with_command(made), tuple(notes_of(plan))


def _check(job: FirstJob) -> None:
    """Refuse what belongs to one site, and batch scripts.

    Raises:
        RequestError: it names a batch script, or a login host.
        UsageError: it names a --site.
    """
    options = job.options
    if options.site:
        raise click.UsageError("--site and --first exclude each other.")
    if find_file_job(structs.replace(options, request=Request(), replace_args=False)):
        raise RequestError(
            f"{options.job} is a batch script, and --first is for jobs of slurmgen.toml or of options",
            "Name one --site; `slurmgen adopt` makes a job of slurmgen.toml from a script.",
        )
    refuse_one_host(job.sites, job.route_values)


def submit_first(job: FirstJob, *, again: bool, dry_run: bool, follow: bool, as_json: bool) -> None:
    """Submit the job to all sites that could run it, and print the id of the one that starts first.

    Raises:
        RequestError, ConfigError: the request, or a profile, is wrong.
        CommandFailed: no site could run the job, or none has.
    """
    from slurmgen.jobs.race import run

    _check(job)
    if dry_run:
        _show(job, as_json)
        return
    with Logins(connect_without_prompt) as logins:
        race, entrants = _entrants(job, logins, follow=follow, again=again)
        with run(race, entrants, logins.take, say, partial(_print, race, as_json)) as won:
            if follow:
                runner = won.runner
                follow_log(runner.connected(), runner.record, runner.job.id, runner.job.route)


def _entrants(job: FirstJob, logins: Logins, *, follow: bool, again: bool) -> "tuple[Race, list[Entrant]]":
    """The sites of the unfinished race of the same command, or else of a new one."""
    from slurmgen.jobs.first import in_race, new_race, partition_of
    from slurmgen.jobs.race import Entrant
    from slurmgen.jobs.races import Races

    races, command = Races(), job.command()
    race, new = (None if again else races.open_race(command)), dict[str, tuple[Prepared, Printer]]()
    if race is None:
        race = new_race(command)
        made = [_with_secrets(race, job.prepared(one.site, one.partition)) for one in _takers(job, logins)]
        check_follow(follow, is_array=any(one.record.tasks for one, _ in made))
        new = {one.record.key: (one, printer) for one, printer in made}
    race = races.enter(race, [one.record for one, _ in new.values()], again=again)
    entries = races.entries(race)
    if not all(entry.key in new for entry in entries):
        say(f"continuing the race {race.key} of an earlier command")

    def prepare(entry: "Record") -> tuple[Prepared, Printer]:
        if entry.key in new:
            return new[entry.key]
        made, notes = job.prepared(entry.site, partition_of(entry))
        return in_race(made, race), Printer(made, notes)

    return race, [Entrant(one, job.at(one.site)[1], partial(prepare, one)) for one in entries]


def _with_secrets(race: "Race", made: "tuple[Prepared, tuple[str, ...]]") -> tuple[Prepared, Printer]:
    """The submission to one site, with the values of its secrets: nothing is recorded without them."""
    from slurmgen.jobs.first import in_race
    from slurmgen.jobs.submission import with_secrets

    prepared, notes = made
    printer = Printer(prepared, notes)
    return with_secrets(in_race(prepared, race), printer), printer


def _takers(job: FirstJob, logins: Logins) -> "list[Option]":
    """The partition of each site that could run the job; the other sites are named on stderr."""
    from slurmgen.jobs.first import takers
    from slurmgen.jobs.where import ask_all, place

    options = ask_all([place(*job.at(site)) for site in job.sites], logins.lend, LIMIT)
    found = takers(options)
    for site in job.sites:
        if site not in (one.site for one in found):
            why = "; ".join(one.refused or one.error for one in options if one.site == site)
            say(f"without {site}: {why}")
    return found


def _show(job: FirstJob, as_json: bool) -> None:
    """Show what would be submitted to the site of the earliest estimate."""
    with Logins(connect_without_prompt) as logins:
        found = _takers(job, logins)
    sites = listed([f"{one.site} ({one.partition})" if one.partition else one.site for one in found])
    say(f"would submit to {len(found)} sites, of which the first to start would keep its job: {sites}")
    prepared, notes = job.prepared(found[0].site, found[0].partition)
    warn(prepared, notes)
    show(prepared, as_json)


def _print(race: "Race", as_json: bool, won: "Won") -> None:
    """Print the id of the job that runs, or the object."""
    if as_json:
        from slurmgen.cli.objects.jobs import SubmittedFirst

        values = submitted_values(won.runner.record)
        print_json(
            SubmittedFirst(**values, earlier=won.runner.is_earlier, race=race.key, others=list(won.losers))
        )
    else:
        click.echo(won.runner.record.id)
