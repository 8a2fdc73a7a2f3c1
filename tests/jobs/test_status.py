"""Calling a function for many jobs, without a cluster: how often it connects, and in which order."""

from types import TracebackType

from slurmgen.jobs.job import Job, for_each
from slurmgen.remote.route import Route
from slurmgen.slurm.commands import JobId

DAIC, OLIVIA = Route(site="daic", via="local"), Route(site="olivia", via="local")


class Connection:
    def __init__(self, route: Route, events: list[str]) -> None:
        self.route, self.events = route, events

    def __enter__(self) -> "Connection":
        self.events.append(f"connected to {self.route.site}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.events.append(f"left {self.route.site}")


def test_each_site_takes_one_connection_and_results_have_the_order_of_the_jobs() -> None:
    events: list[str] = []
    jobs = [Job(JobId("1"), DAIC), Job(JobId("2"), OLIVIA), Job(JobId("3"), DAIC)]

    def action(_transport: object, job: Job) -> str:
        events.append(job.id.number)
        return job.id.number

    results = for_each(jobs, lambda route: Connection(route, events), action)  # type: ignore[arg-type,return-value]
    assert results == ["1", "2", "3"]
    assert events == ["connected to daic", "1", "3", "left daic", "connected to olivia", "2", "left olivia"]
