"""The parts of `submit --first` that need no connection: who takes part, and the race for the ledger."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TypeVar

from msgspec import structs

from slurmgen.errors import CommandFailed, RequestError
from slurmgen.job_spec import JobSpec
from slurmgen.jobs.ledger import Record
from slurmgen.jobs.new_entry import new_key
from slurmgen.jobs.prepare import Prepared
from slurmgen.jobs.races import Race
from slurmgen.jobs.recorded_request import recorded, recorded_request
from slurmgen.jobs.runner import Say
from slurmgen.jobs.where import Option

Made = TypeVar("Made")
_COMPARE = "`slurmgen where` compares them."


def fingerprint(jobs: Sequence[JobSpec], places: Sequence[str] = ()) -> str:
    """A hash of the command: the same for the same job and the same sites, in any order.

    Args:
        jobs: the job at each site.
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


def of_each(options: Sequence[Option], make: Callable[[Option], Made], say: Say) -> list[Made]:
    """What is made for each site, without those that cannot run the request, which are reported.

    Raises:
        RequestError: none of them can.
    """
    made, refused = list[Made](), dict[str, RequestError]()
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


def in_race(prepared: Prepared, race: Race) -> Prepared:
    """The submission, whose entry is in a race, is never that of another one, and keeps its key."""
    of_site = sha256("\0".join((race.key, prepared.route.site)).encode()).hexdigest()
    record = structs.replace(prepared.record, fingerprint=of_site, part_of=race.key)
    return structs.replace(prepared, record=record, one_key=True)


def partition_of(entry: Record) -> str | None:
    """The partition that an entry was made for; None for the default of Slurm."""
    return recorded_request(entry).request.partition
