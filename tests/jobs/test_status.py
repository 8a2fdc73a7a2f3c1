"""Asking for many jobs, without a cluster: how often one goes where, and in which order."""

from types import TracebackType

from slurmgen.jobs.status import Named, each
from slurmgen.remote.route import Route
from slurmgen.slurm.commands import JobId

HERE, THERE = Route(site="daic", via="local"), Route(site="olivia", via="local")


class Far:
    def __init__(self, way: Route, told: list[str]) -> None:
        self.way, self.told = way, told

    def __enter__(self) -> "Far":
        self.told.append(f"in {self.way.site}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.told.append(f"out {self.way.site}")


def test_one_goes_to_each_site_once_and_answers_come_in_the_order_of_the_jobs() -> None:
    told: list[str] = []
    jobs = [Named(JobId("1"), HERE), Named(JobId("2"), THERE), Named(JobId("3"), HERE)]

    def do(_far: object, one: Named) -> str:
        told.append(one.job.number)
        return one.job.number

    assert each(jobs, lambda way: Far(way, told), do) == ["1", "2", "3"]  # type: ignore[arg-type,return-value]
    assert told == ["in daic", "1", "3", "out daic", "in olivia", "2", "out olivia"]
