"""Calling a function for many jobs, without a cluster: how often it connects, and in which order."""

from pathlib import Path
from types import TracebackType

from slurmgen.remote.route import Route
from slurmgen.remote.ssh.config import destination
from slurmgen.remote.ssh.paramiko import connect
from slurmgen.slurm.commands import JobId
from slurmgen.status.job import Job, for_each
from slurmgen.status.slurm import query_states
from tests.support.sshd import Server
from tests.support.twins import Testbed

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


def test_more_jobs_are_queried_than_one_command_can_name(
    login_node: Server, testbed: Testbed, tmp_path: Path
) -> None:
    number = testbed.run("sbatch", "--parsable", "--begin=now+1hour", "--wrap=true").strip()
    jobs = [*(JobId(str(unused)) for unused in range(60_000_000, 60_020_000)), JobId(number)]
    try:
        with connect(destination("far", login_node.config(tmp_path))) as transport:
            states = query_states(transport, jobs)
    finally:
        testbed.run("scancel", number)
    *others, last = states.values()
    assert set(others) == {()}
    assert [state.state for state in last] == ["PENDING"]
