"""The reason that is printed for a whole sweep."""

import pytest
from msgspec import json

from slurmgen.ledger.ledger import Record
from slurmgen.remote.route import Route
from slurmgen.slurm.replies import JobState
from slurmgen.status.job import Job
from slurmgen.status.listing import reasons
from slurmgen.status.query import recall

ROUTE = Route(site="olivia", via="local")


def printed(*states: str) -> list[str]:
    """The reasons of a sweep whose tasks ended in these states."""
    final = [
        JobState(id=f"7_{task}", state=state, exit_code="1:0" if state == "FAILED" else "0:0")
        for task, state in enumerate(states)
    ]
    tasks = {"tasks": {str(task): [{"lr": str(task)}] for task in range(len(states))}}
    record = Record(
        id="7",
        site="olivia",
        via="local",
        name="tune",
        folder="/f",
        output="%A_%a.out",
        submitted="2026-01-01T00:00:00+00:00",
        tasks=json.encode(tasks).decode(),
        final=json.encode(final).decode(),
    )
    report = recall(Job.of(record, ROUTE), "")
    assert report is not None
    return list(reasons(report))


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["COMPLETED", "CANCELLED"], ["1 completed, 1 cancelled"]),
        (["CANCELLED", "CANCELLED"], ["2 cancelled"]),
        (["TIMEOUT"], ["1 timeout", "it reached its time limit"]),
        (
            ["CANCELLED", "COMPLETED", "TIMEOUT"],
            ["1 completed, 1 cancelled, 1 timeout", "1 of 3 tasks failed: it reached its time limit"],
        ),
        (
            ["TIMEOUT", "OUT_OF_MEMORY"],
            ["1 out of memory, 1 timeout", "2 of 2 tasks failed; of the first: it reached its time limit"],
        ),
    ],
)
def test_the_reason_of_a_sweep_counts_its_tasks(states: list[str], expected: list[str]) -> None:
    assert printed(*states) == expected
