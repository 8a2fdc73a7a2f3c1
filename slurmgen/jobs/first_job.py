"""The job of `submit --first`: what each site would get, and the race that its command enters."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from slurmgen.errors import RequestError
from slurmgen.job_options import JobOptions
from slurmgen.job_spec import JobSpec, load_spec
from slurmgen.jobs.first import (
    fingerprint,
    in_race,
    new_race,
    of_each,
    partition_of,
    refused_everywhere,
    takers,
)
from slurmgen.jobs.ledger import Record
from slurmgen.jobs.logins import Logins
from slurmgen.jobs.places import Confirm, route_of
from slurmgen.jobs.prepare import Prepared
from slurmgen.jobs.races import Race, Races
from slurmgen.jobs.runner import Entrant, Say
from slurmgen.jobs.submission import Observer, with_secrets
from slurmgen.jobs.where import Option, ask_all, place
from slurmgen.plan import Plan, gate
from slurmgen.remote.route import Route

LIMIT = 30.0
"Seconds for each site to estimate the start: a site that is too slow for `where` may still be first."
Made = tuple[Prepared, Observer]
"A submission, and what is called as it proceeds."


class FirstJob(Struct, frozen=True, kw_only=True):
    """One job for several sites, and how it is sent."""

    options: JobOptions
    folder: Path
    "Of the project, or one below it."
    sites: tuple[str, ...]
    route_values: Mapping[str, Any]
    remote_dir: str | None
    prepare: Callable[[JobSpec, Route], Made]
    "Makes the submission to one site, of a plan of `gated`."
    ask: Confirm | None = None
    "Asks the user about a place that only the project names."

    def command(self) -> str:
        """A hash of the command: what its sites would get, and where their keys have their records."""
        places = [self.at(site) for site in self.sites]
        folders = [
            f"{route.site}\0{route.via}\0{route.host}\0{self.remote_dir or job.personal.remote_dir}"
            for job, route in places
        ]
        return fingerprint([job for job, _ in places], folders)

    def at(self, site: str, partition: str | None = None) -> tuple[JobSpec, Route]:
        """The job at one of the sites, and the route to it."""
        request = self.options.request
        asked = structs.replace(request, partition=partition or request.partition)
        job = load_spec(structs.replace(self.options, site=site, request=asked), self.folder)
        return job, route_of(job.site, job.personal, job.project_dir, self.ask, **self.route_values)

    def made(self, race: Race, site: str, partition: str | None) -> Made:
        """The submission to one site of a race.

        Raises:
            RequestError: the job cannot be submitted there.
        """
        prepared, observer = self.prepare(*self.at(site, partition))
        return in_race(prepared, race), observer


def gated(job: JobSpec) -> Plan:
    """The plan of a job that waits for its gate.

    Raises:
        RequestError: it needs several arrays, or depends on another job.
    """
    plan = structs.replace(job.plan(), gate=gate.GATE_SECONDS)
    if plan.sweep and len(plan.sweep.arrays) > 1:
        raise RequestError(
            f"the sweep needs {len(plan.sweep.arrays)} arrays, and --first is for a single job",
            "Name one --site.",
        )
    if after := job.after():
        raise RequestError(
            f"the job depends on {after[0].text}, and --first is for a job of its own",
            "Name one --site, that of the other job.",
        )
    return plan


def enter(job: FirstJob, logins: Logins, say: Say, *, again: bool) -> tuple[Race, list[Entrant]]:
    """The unfinished race of the same command with its sites, or else a new one.

    Raises:
        RequestError, ConfigError: the request, or a profile, is wrong.
        CommandFailed: no site could run the job.
    """
    races, command = Races(), job.command()
    race, new = (None if again else races.open_race(command)), dict[str, Made]()
    if race is None:
        race = new_race(command)
        new = _new(job, race, sites_that_can_run(job, logins, say), say)
    race = races.enter(race, [one.record for one, _ in new.values()], again=again)
    entries = races.entries(race)
    if not all(entry.key in new for entry in entries):
        say(f"continuing the race {race.key} of an earlier command")

    def prepare(entry: Record) -> Made:
        return new.get(entry.key) or job.made(race, entry.site, partition_of(entry))

    return race, [Entrant(one, job.at(one.site)[1], partial(prepare, one)) for one in entries]


def _new(job: FirstJob, race: Race, options: Sequence[Option], say: Say) -> dict[str, Made]:
    """The submissions of a new race by their keys, with their secrets: nothing is recorded without them."""

    def make(option: Option) -> Made:
        prepared, observer = job.made(race, option.site, option.partition)
        return with_secrets(prepared, observer), observer

    made = of_each(options, make, say)
    return {prepared.record.key: (prepared, observer) for prepared, observer in made}


def sites_that_can_run(job: FirstJob, logins: Logins, say: Say) -> list[Option]:
    """The partition of each site that could run the job; the other sites are reported.

    Raises:
        RequestError: the request is wrong for all sites.
        CommandFailed: no site could run it now.
    """
    places = [place(*job.at(site)) for site in job.sites]
    if not any(one.candidates for one in places):
        raise refused_everywhere([(one.site, one.refused) for here in places for one in here.refused])
    options = ask_all(places, logins.lend, LIMIT)
    found = takers(options)
    for site in job.sites:
        if site not in (one.site for one in found):
            why = "; ".join(one.refused or one.error for one in options if one.site == site)
            say(f"without {site}: {why}")
    return found
