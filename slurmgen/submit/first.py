"""Prepare the jobs of `--first`, one for each site."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from msgspec import Struct, structs

from slurmgen.errors import CommandFailed, RequestError
from slurmgen.job_spec import JobOptions, JobSpec, load_spec
from slurmgen.ledger.ledger import Record
from slurmgen.ledger.places import Confirm
from slurmgen.ledger.races import Race, Races
from slurmgen.ledger.request import recorded, recorded_request
from slurmgen.plan import Plan, requeue
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Transport
from slurmgen.slurm.units import is_of_task
from slurmgen.status.job import Connect
from slurmgen.submit.how import How
from slurmgen.submit.job import on_good, route_of_spec
from slurmgen.submit.prepare import Prepared, new_key, prepare_job
from slurmgen.submit.race import Loser, Runner, Say, run
from slurmgen.submit.submission import Observer, with_secrets
from slurmgen.submit.where import Option, ask_all, place, refuse_one_host

Item = TypeVar("Item")

_COMPARE = "`slurmgen where` compares them."


def fingerprint(jobs: Sequence[JobSpec], places: Sequence[str] = ()) -> str:
    """A hash of the command: the same for the same job and the same sites, in any order.

    Args:
        places: the route to each site, and the remote folder there, which a key must not leave.

    Raises:
        RequestError: a value is not valid UTF-8.
    """
    texts = sorted(recorded(job) for job in jobs)
    if not all(texts):
        raise RequestError(
            "a value of the request is not valid UTF-8", "Submit with --site instead of --first."
        )
    return sha256("\0".join(("first", *texts, *sorted(places))).encode()).hexdigest()


def takers(options: Sequence[Option]) -> list[Option]:
    """One option for each site that could run the job: the first, so that they are in order of their start.

    Raises:
        CommandFailed: no site could run the job, or none was reached.
    """
    found = {option.site: option for option in reversed(options) if option.can_run}
    if not found:
        raise CommandFailed(_none_could([(one.site, one.refused or one.error) for one in options]), _COMPARE)
    return [option for option in options if found.get(option.site) is option]


def refused_everywhere(reasons: Sequence[tuple[str, str]]) -> RequestError:
    """The error for a request that no site can run: the reason itself if all sites have the same one.

    Args:
        reasons: each site with a reason; a site may have several.
    """
    sites, texts = (set(column) for column in zip(*reasons, strict=True))
    if len(sites) > 1 and len(texts) == 1:
        return RequestError(texts.pop())
    return RequestError(_none_could(reasons), _COMPARE)


def _none_could(reasons: Sequence[tuple[str, str]]) -> str:
    listed = (f"{site}: {text.rstrip('.')}" for site, text in dict.fromkeys(reasons))
    return f"no site could run the job: {'; '.join(listed)}"


def of_each(options: Sequence[Option], make: Callable[[Option], Item], say: Say) -> list[Item]:
    """What is made for each site, without those that cannot run the request, which are reported.

    Raises:
        RequestError: none of them can.
    """
    made, refused = list[Item](), dict[str, RequestError]()
    for option in options:
        try:
            made.append(make(option))
        except RequestError as error:
            refused[option.site] = error
    if not made:
        raise refused_everywhere([(site, str(error)) for site, error in refused.items()])
    for site, reason in refused.items():
        say(f"without {site}: {reason}")
    return made


def new_race(command: str) -> Race:
    """A race of the command with that fingerprint."""
    return Race(new_key(), command)


class Logins:
    """Connections that wait for their next use; they are closed at the end of the block."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._idle: dict[Route, Transport] = {}

    @contextmanager
    def lend(self, route: Route) -> Iterator[Transport]:
        """A new connection, which is kept open after the block unless that fails."""
        transport = self._connect(route)
        try:
            yield transport
        except BaseException:
            transport.close()
            raise
        self._idle[route] = transport

    def take(self, route: Route) -> Transport:
        """The connection that was kept, or a new one; the caller closes it."""
        return self._idle.pop(route, None) or self._connect(route)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._idle:
            self._idle.popitem()[1].close()


LIMIT = 30.0
"Seconds for each site to estimate the start: a site that is too slow for `where` may still be first."
Announce = Callable[[Race, Runner, Sequence[Loser]], None]
"Called with the job that runs and the others, before the race is over: what it prints is not lost."
Made = tuple[Prepared, Observer]
"A submission, and what is called as it proceeds."


class FirstJob(Struct, frozen=True, kw_only=True):
    """One job for several sites, and how it is sent."""

    options: JobOptions
    folder: Path
    "Of the project, or one below it."
    sites: tuple[str, ...]
    how: How
    observe: Callable[[], Observer]
    "Makes what is called as the submission to one site proceeds."
    ask: Confirm | None = None
    "Asks the user about a place that only the project names."

    def command(self) -> str:
        """A hash of the command: what its sites would get, and where their keys have their records."""
        places = [self.at(site) for site in self.sites]
        folders = [
            f"{route.site}\0{route.via}\0{route.host}\0{self.how.remote_dir or job.personal.remote_dir}"
            for job, route in places
        ]
        return fingerprint([job for job, _ in places], folders)

    def at(self, site: str, partition: str | None = None) -> tuple[JobSpec, Route]:
        """The job at one of the sites, and the route to it."""
        request = self.options.request
        asked = structs.replace(request, partition=partition or request.partition)
        job = load_spec(structs.replace(self.options, site=site, request=asked), self.folder)
        return job, route_of_spec(job, self.how, self.ask)

    def made(self, race: str, site: str, partition: str | None) -> Made:
        """The submission to one site of a race.

        Raises:
            RequestError: the job cannot be submitted there.
        """
        job, route = self.at(site, partition)
        observer = self.observe()
        job = on_good(job, route, self.how, observer)
        plan = gated(job)
        observer.planned(is_array=is_of_task(plan.output))
        arrays = prepare_job(job, plan, route, self.how, race=race)
        observer.prepared(arrays)
        return arrays[0], observer


def gated(job: JobSpec) -> Plan:
    """The plan of a job that waits for its gate.

    Raises:
        RequestError: it needs several arrays, or depends on another job.
    """
    plan = structs.replace(job.plan(), gate=requeue.GATE_SECONDS)
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


def enter(job: FirstJob, logins: Logins, say: Say) -> tuple[Race, list[Runner]]:
    """The unfinished race of the same command with its sites, or else a new one.

    Raises:
        RequestError, ConfigError: the request, or a profile, is wrong.
        CommandFailed: no site could run the job.
    """
    races, command, again = Races(), job.command(), job.how.again
    race, new = (None if again else races.open_race(command)), dict[str, Made]()
    if race is None:
        race = new_race(command)
        new = _new(job, race, sites_that_can_run(job, logins, say), say)
    race = races.enter(race, [one.record for one, _ in new.values()], again=again)
    entries = races.entries(race)
    if not all(entry.key in new for entry in entries):
        say(f"continuing the race {race.key} of an earlier command")

    def prepare(entry: Record) -> Made:
        if made := new.get(entry.key):
            return made
        return job.made(race.key, entry.site, recorded_request(entry).request.partition)

    def runner(entry: Record) -> Runner:
        return Runner(race, entry, job.at(entry.site)[1], partial(prepare, entry), logins.take, say)

    return race, [runner(entry) for entry in entries]


def _new(job: FirstJob, race: Race, options: Sequence[Option], say: Say) -> dict[str, Made]:
    """The submissions of a new race by their keys, with their secrets: nothing is recorded without them."""

    def make(option: Option) -> Made:
        prepared, observer = job.made(race.key, option.site, option.partition)
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


@contextmanager
def submit_first(job: FirstJob, logins: Logins, say: Say, announce: Announce) -> Iterator[Runner]:
    """Submit a job to several sites until one starts; the connection to that one stays open in the block.

    A repeated call continues. See `slurmgen.submit.race.run`, which also says what it raises.

    Raises:
        RequestError: the sites would all have the same login host, or the request is wrong.
    """
    refuse_one_host(job.sites, job.how.route_values)
    race, runners = enter(job, logins, say)
    with run(race, runners, logins.take, say, partial(announce, race)) as winner:
        yield winner
