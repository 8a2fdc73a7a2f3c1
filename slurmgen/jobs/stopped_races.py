"""End the races whose jobs are all cancelled: no further site gets a job, and no job is chosen."""

from collections.abc import Iterable, Mapping, Sequence

from slurmgen.jobs.gate import close_gate
from slurmgen.jobs.job import Borrow, Job
from slurmgen.jobs.races import Race, Races


def stop_races(jobs: Sequence[Job], connect: Borrow) -> None:
    """End the unfinished races of which these are all jobs, before the jobs are cancelled.

    A client that still submits reads this from the ledger. If a job is chosen already, the race ends only if
    its gate can be closed; otherwise its program runs until the job is cancelled.

    Raises:
        RemoteError: the site of a chosen job was not reached.
    """
    races = Races()
    by_key = {job.record.key: job for job in jobs if job.record and job.record.part_of}
    for race in _races_of(races, by_key.values()):
        if not race.over and {entry.key for entry in races.entries(race)} <= by_key.keys():
            _stop(races, race, by_key, connect)


def _races_of(races: Races, jobs: Iterable[Job]) -> set[Race]:
    groups = {job.record.part_of for job in jobs if job.record}
    return {race for group in groups if (race := races.named(group))}


def _stop(races: Races, race: Race, jobs: Mapping[str, Job], connect: Borrow) -> None:
    """End a race; if a job is chosen, take the choice back first, unless its gate is open."""
    race = races.stop(race)
    job = jobs.get(race.chosen)
    if job is None or job.record is None:
        return
    with connect(job.route) as transport:
        is_closed = close_gate(transport, job.record.folder)
    if is_closed:  # a client may choose another job before the race is ended
        _stop(races, races.take_back(race), jobs, connect)
