"""Submitting a job to several sites, as `slurmgen submit --first` does, for Python."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slurmgen.job_spec import JobSpec
from slurmgen.jobs.first_job import FirstJob, enter
from slurmgen.jobs.ledger import Record
from slurmgen.jobs.logins import Logins
from slurmgen.jobs.prepare import Prepared
from slurmgen.jobs.race import run
from slurmgen.jobs.submission import Observer
from slurmgen.jobs.where import refuse_one_host
from slurmgen.remote.route import Route, open_route

_log = logging.getLogger(__name__)


def submit_first(
    job: JobSpec,
    sites: Sequence[str],
    prepare: Callable[[JobSpec, Route], Prepared],
    *,
    remote_dir: str | None,
    route_values: Mapping[str, Any],
    again: bool,
    observer: Observer | None,
) -> Record:
    """Submit a job to several sites, and return the record of the one that starts first.

    Raises:
        RequestError: the sites would all have the same login host.
        RemoteError: as `slurmgen.jobs.race.run` says.
    """
    refuse_one_host(sites, route_values)

    def made(one: JobSpec, route: Route) -> tuple[Prepared, Observer]:
        return prepare(one, route), observer or Observer()

    first = FirstJob(
        options=job.options,
        folder=job.project_dir,
        sites=tuple(dict.fromkeys(sites)),
        route_values=route_values,
        remote_dir=remote_dir,
        prepare=made,
    )
    with Logins(open_route) as logins:
        race, entrants = enter(first, logins, _log.info, again=again)
        with run(race, entrants, logins.take, _log.info, lambda _: None) as won:
            return won.runner.record
