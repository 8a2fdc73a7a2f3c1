"""Find the job that a user means, in the ledger and on the cluster."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from slurmgen.errors import RequestError
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.ledger.races import Race, Races
from slurmgen.ledger.request import kept_of
from slurmgen.remote.route import Route, with_personal
from slurmgen.slurm.commands import JobId
from slurmgen.status.job import Job, Selection, check_parameters, chosen, job_id, selection
from slurmgen.text import listed

if TYPE_CHECKING:
    from slurmgen.config.user import Personal
    from slurmgen.ledger.places import Confirm

_JOB_ID = re.compile(r"[0-9]+(_[0-9]+)?")
_GROUP = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{8}")
LAST = "last"
"The name of the job that was submitted last."
Options = Mapping[str, Any]
"Route options of the command line, by name; None where the user gave none."
SiteRoute = Callable[[str], Route]
"Returns the route to a site."


def is_id(name: str) -> bool:
    """Whether a name has the form of an id, such as 12, or 12_3 for a task of an array."""
    return bool(_JOB_ID.fullmatch(name))


def find_jobs(
    names: Sequence[str],
    site: str | None,
    options: Options,
    site_route: SiteRoute,
    *,
    to_cancel: bool = False,
) -> list[Job]:
    """Submitted jobs as `find_job` finds them, without duplicates.

    The name of a sweep is that of all its arrays, and `NAME[lr=1e-3]` that of the tasks with such parameters.
    The key of a group is that of all its jobs. The name of a race is that of its chosen job; without one, of
    all its jobs; `to_cancel`, of all its jobs until it is over, since another one may be chosen. Only
    `to_cancel` also returns the jobs of a race that are still being submitted, which have no ids.

    Raises:
        RequestError: as `find_job`; or no task has such parameters.
    """
    found = (job for name in names for job in _jobs(name, site, options, site_route, to_cancel))
    return list(dict.fromkeys(found))


def _jobs(name: str, site: str | None, options: Options, site_route: SiteRoute, to_cancel: bool) -> list[Job]:
    asked = selection(name)
    several = _members(name, to_cancel) or (() if asked else _racing(name, site, to_cancel))
    if several:
        return [Job.of(record, _route(record, options, site_route)) for record in several]
    job = find_job(asked.job if asked else name, site, options, site_route)
    if asked is None and is_id(name):
        return [job]
    arrays = all_arrays(job)
    return _tasks(arrays, asked) if asked else arrays


def _members(key: str, to_cancel: bool) -> Sequence[Record]:
    if not _GROUP.fullmatch(key):
        return ()
    race = Races().named(key)
    return _entries(race, to_cancel) if race else Ledger().group_of(key)


def _racing(name: str, site: str | None, to_cancel: bool) -> Sequence[Record]:
    record = None if site or is_id(name) else _last(name, None)
    race = Races().of(record) if record else None
    if race is None or (race.chosen and (race.over or not to_cancel)):
        return ()
    return _entries(race, to_cancel)


def _entries(race: Race, to_cancel: bool) -> Sequence[Record]:
    return [entry for entry in Races().entries(race) if to_cancel or not entry.pending]


def only_one(jobs: Sequence[Job], name: str) -> Job:
    """The job that a name means.

    Raises:
        RequestError: it means several.
    """
    if len(jobs) > 1:
        ids = listed([str(one.id) for one in jobs])
        raise RequestError(f"{name} is {len(jobs)} jobs: {ids}", f"Name one of them, such as {jobs[0].id}.")
    return jobs[0]


def all_arrays(job: Job) -> list[Job]:
    """All arrays of the sweep that a job is of; another job alone."""
    record = job.record
    if record is None or record.pending or not record.tasks:
        return [job]
    return [Job.of(one, job.route) for one in Ledger().group(record)]


def _tasks(arrays: Sequence[Job], asked: Selection) -> list[Job]:
    found = [
        Job(job_id(array.record, f"{array.id}_{task}"), array.route, array.record, run)
        for array in arrays
        if array.record
        for task, run in chosen(array.record, asked.parameters)
    ]
    if not found:
        check_parameters([array.record for array in arrays if array.record], asked)
    return found


def find_job(name: str, site: str | None, options: Options, site_route: SiteRoute) -> Job:
    """Find a submitted job.

    Args:
        name: an id such as 12, or 12_3 for a task of an array; the name of a job, of which the last
            submitted counts; or `last`. What looks like an id may be a name, if the ledger has no job of
            that id and no site is named.
        site: only jobs at this site.
        options: these replace what the ledger knows of the route.
        site_route: the route to a site, for a job that the ledger does not have.

    Raises:
        RequestError: there is no such job, or it is at several sites.
    """
    if is_id(name):
        if record := _by_id(name, site):
            return Job(job_id(record, name), _route(record, options, site_route), record)
        if site or not _last(name, None):
            return Job(JobId(name), _route_to(site, name, site_route))
    record = _by_name(name, site)
    return Job.of(record, _route(record, options, site_route))


def earlier(name: str) -> Record | None:
    """The job that was submitted last with that id or name, or as `last`; None if there is none.

    Raises:
        ConfigError: the ledger cannot be used.
    """
    of_id = Ledger().find(name.partition("_")[0]) if _JOB_ID.fullmatch(name) else ()
    found = of_id[-1] if of_id else _last(name, None)
    return None if found is None or found.pending else found


def recent_records(limit: int, site: str | None) -> Sequence[Record]:
    """The last `limit` entries of the ledger, or all if it is 0, at one site or at all; the newest last.

    A sweep among them has all its arrays, since its state is that of all.
    """
    ledger = Ledger()
    if not limit:
        return ledger.all(site)
    records = ledger.recent(limit, site)
    sweeps = dict.fromkeys(record.part_of for record in records if record.tasks and not record.pending)
    arrays = [array for sweep in sweeps for array in ledger.group_of(sweep)]
    return sorted(dict.fromkeys([*arrays, *records]), key=lambda record: record.submitted)


def find_submission(name: str, site: str | None) -> Record:
    """Find an unsettled submission by its key or by the name of its job.

    Raises:
        RequestError: there is none, or there are several.
    """
    entries = Ledger().unsettled(name, site)
    chosen = [entry for entry in entries if entry.key == name] or entries
    if not chosen:
        raise RequestError(
            f"no unsettled submission is called {name!r}", "`slurmgen status` lists them with their keys."
        )
    if len(chosen) > 1:
        keys = ", ".join(entry.key for entry in chosen)
        raise RequestError(f"{len(chosen)} unsettled submissions are called {name!r}: {keys}", "Name a key.")
    return chosen[0]


def site_route(site: str, folder: Path, options: Options, ask: "Confirm | None" = None) -> Route:
    """The route to a site, of which the project of a folder may have a profile.

    Raises:
        RequestError: only the project names that place, and the user does not agree to it.
        ConfigError: there is no such site, or it has no login host.
    """
    from slurmgen.config.project import find_project  # 15 ms, for jobs without a record only
    from slurmgen.config.user import load_personal
    from slurmgen.ledger.places import route_of
    from slurmgen.sites.profiles import load_site

    project_dir = find_project(folder)[0]
    return route_of(load_site(site, project_dir), load_personal(site), project_dir, ask, **options)


def recorded_route(record: Record, options: Options) -> Route:
    """The route of a record, with the client of personal.toml, and with the options that the user gave."""
    recorded = Route(**{field: getattr(record, field) for field in Route.__struct_fields__})
    route = with_personal(recorded, _personal(record.site)) if recorded.via == "ssh" else recorded
    return structs.replace(route, **{key: value for key, value in options.items() if value})


@lru_cache(maxsize=64)  # `status --all` lists thousands of jobs
def _personal(site: str) -> "Personal":
    from slurmgen.config.user import load_personal

    return load_personal(site)


def _route(record: Record, options: Options, site_route: SiteRoute) -> Route:
    """The route of a record with the user's options; --via ssh alone means the login host of the site."""
    route = recorded_route(record, options)
    if route.via == record.via or route.via != "ssh" or route.host:
        return route
    if record.via == "twin":
        raise RequestError(
            f"job {record.id} is on the twin of {record.site} on this machine, not on {record.site} itself",
            "Leave out --via; or name the twin's own sshd with --host and --ssh-config.",
        )
    return site_route(record.site)


def _route_to(site: str | None, name: str, site_route: SiteRoute) -> Route:
    if site is None:
        raise RequestError(
            f"job {name} is not in your records", "Name its site with --site; `slurmgen status` lists yours."
        )
    return site_route(site)


def _by_id(job_id: str, site: str | None) -> Record | None:
    records = Ledger().find(job_id.partition("_")[0], site)
    if len(records) > 1:
        sites = ", ".join(sorted(record.site for record in records))
        raise RequestError(f"job {job_id} is at several sites: {sites}", "Choose one with --site.")
    return records[0] if records else None


def _last(name: str, site: str | None) -> Record | None:
    return Ledger().last(None if name == LAST else name, site)


def winner_of(record: Record) -> Record:
    """The job that was chosen in the race of a record; that record itself if it is in none."""
    race = Races().of(record)
    return (race and Races().of_key(race.chosen)) or record


def _by_name(name: str, site: str | None) -> Record:
    record = _last(name, site)
    record = winner_of(record) if record and not site else record
    if record is None:
        of_name, at_site = "" if name == LAST else f" called {name!r}", f" at {site}" if site else ""
        raise RequestError(
            f"no job{of_name} was submitted from this machine{at_site}",
            "A job is named by its id, by its name, or as `last`; `slurmgen status` lists yours.",
        )
    require_settled(record)
    return record


def require_settled(record: Record) -> None:
    """Refuse an unconfirmed entry.

    Raises:
        RequestError: it is pending.
    """
    if record.pending:
        raise RequestError(
            f"it is not known whether the last submission of {record.name} became a job",
            "Repeat its `slurmgen submit`, which finds the job; give it up with "
            f"`slurmgen forget {record.key}`; or name an earlier job by its id.",
        )


_PLACE = ("site", "via", "host", "cluster")


def waits_for(record: Record) -> Iterator[tuple[str, Record]]:
    """The jobs that must end before a job starts, each with the type of the dependency: ok, notok or any."""
    for kind, number in _afters(record):
        same = Ledger().with_id(number.partition("_")[0])
        before = [one for one in same if _is_near(one, record) and one.submitted <= record.submitted]
        yield from ((kind, one) for one in before[-1:])


def waited_for_by(record: Record) -> list[Record]:
    """The jobs that were submitted to start after a job or one of its tasks."""
    found = Ledger().that_mention(record.site, record.id) if record.id else ()
    return [one for one in found if _is_near(one, record) and record.key != one.key and _names(one, record)]


def _names(other: Record, record: Record) -> bool:
    return any(number.partition("_")[0] == record.id for _, number in _afters(other))


def _is_near(other: Record, record: Record) -> bool:
    return all(getattr(other, field) == getattr(record, field) for field in _PLACE)


def _afters(record: Record) -> list[tuple[str, str]]:
    try:
        words = kept_of(record).after
    except RequestError:
        return []
    parts = [word.partition(":") for word in words]
    return [(kind, number) for kind, _, number in parts]
