"""What is proposed after a job ran out of memory or time: the number, and its limits."""

from pathlib import Path

import pytest

from slurmgen import Site, load_site, resolve
from slurmgen.request.model import Request
from slurmgen.sites.model import Node, Partition
from slurmgen.slurm.replies import JobState, Usage
from slurmgen.status.failure import Why
from slurmgen.status.failure_patterns import MORE_MEMORY, RUN_AGAIN
from slurmgen.submit.proposal import Proposal, Room, proposal, room_of_plan, room_of_script
from slurmgen.submit.script import parsed

LAB = Site(
    name="lab",
    title="Lab",
    node=Node(gpus=4, cpus=64, memory="200G"),
    partitions={"gpu": Partition(default=True, max_time="1-00:00:00")},
)


CLARIDEN = load_site("clariden")


def room(site: Site = LAB, **values: object) -> Room:
    return room_of_plan(resolve(Request(command=("true",), **values), site))  # type: ignore[arg-type]


def room_of(*header: str) -> Room:
    """The room of a batch script with these options."""
    text = f"#!/bin/bash\n#SBATCH {' '.join(header)}\ntrue\n"
    return room_of_script(parsed(text.encode(), Path("a.sbatch"), "a.sbatch"), LAB)


def out_of_memory(memory: int | None = None, used: int | None = None, **counts: int) -> JobState:
    return JobState(id="1", state="OUT_OF_MEMORY", usage=Usage(memory=memory, memory_used=used, **counts))


TIMEOUT = JobState(id="1", state="TIMEOUT")


@pytest.mark.parametrize(
    ("job", "asked", "words"),
    [
        (out_of_memory(64 << 10, 70 << 10), room(), "--mem 96G"),  # 1.5 of the request
        (out_of_memory(64 << 10, 90 << 10), room(), "--mem 113G"),  # 1.25 of the peak, rounded up
        (out_of_memory(), room(mem="20G"), "--mem 30G"),  # without accounting
        (out_of_memory(128 << 10, 100 << 10), room(nodes=2, gpus=2), "--mem 96G"),  # per node
        (out_of_memory(180 << 10), room(), "--mem 200G"),  # all of a node
        (JobState(id="1", state="TIMEOUT", time_limit="02:00:00"), room(), "--time 04:00:00"),
        (JobState(id="1", state="TIMEOUT", time_limit="16:00:00"), room(), "--time 1-00:00:00"),
        (TIMEOUT, room(time="03:00:00"), "--time 06:00:00"),
        (out_of_memory(), room_of("--mem=20G"), "--mem 30G"),
        (out_of_memory(128 << 10, 100 << 10), room_of("--mem=64G", "--nodes=2"), "--mem 96G"),
        (out_of_memory(180 << 10), room_of("--mem=180G", "--gres=gpu:1"), "--mem 200G"),
        (out_of_memory(8 << 10, cpus=4), room_of("--mem-per-cpu=2G", "-c", "4"), "--sbatch mem-per-cpu=3G"),
        (out_of_memory(64 << 10, gpus=2), room_of("--mem-per-gpu=32G -G 2"), "--sbatch mem-per-gpu=48G"),
        (TIMEOUT, room_of("--time=3:00:00"), "--time 06:00:00"),
        (TIMEOUT, room_of("--time=16:00:00", "--partition=gpu"), "--time 1-00:00:00"),
        (TIMEOUT, room_of("--time=16:00:00", "--partition=other"), "--time 1-08:00:00"),
    ],
)
def test_the_proposal_is_above_what_was_used_and_within_the_limits(
    job: JobState, asked: Room, words: str
) -> None:
    found = proposal(job, None, asked)
    assert found
    assert found.words == words


@pytest.mark.parametrize(
    ("job", "asked", "fact"),
    [
        (out_of_memory(200 << 10), room(), "all that a node has"),
        (JobState(id="1", state="TIMEOUT", time_limit="1-00:00:00"), room(), "the longest of its partition"),
        (out_of_memory(8 << 10), room_of("--mem-per-cpu=2G"), "raise --mem-per-cpu"),
        (out_of_memory(200 << 10), room_of("--mem=0", "-G", "4"), "all that a node has"),
        (TIMEOUT, room_of("-N", "1"), "a time limit, which is not known: give --time"),
        (out_of_memory(), room(CLARIDEN, gpus=4, account="a"), "jobs on clariden request no memory"),
    ],
)
def test_without_a_number_or_room_for_more_there_is_advice_instead(
    job: JobState, asked: Room, fact: str
) -> None:
    found = proposal(job, None, asked)
    assert found
    assert (found.request, found.words) == (None, "")
    assert fact in found.why


def test_a_failure_for_lack_of_memory_or_time_counts_and_no_other() -> None:
    failed = JobState(id="1", state="FAILED", time_limit="01:00:00")

    def of(todo: str, job: JobState = failed) -> Proposal | None:
        return proposal(job, Why("so", todo), room(mem="4G"))

    memory, time = of(MORE_MEMORY), of(RUN_AGAIN)
    assert memory
    assert time
    assert (memory.words, time.words) == ("--mem 6G", "--time 02:00:00")
    assert of("Correct the script.") is None
    assert proposal(JobState(id="1", state="COMPLETED"), None, room()) is None
    assert proposal(JobState(id="1", state="RUNNING"), Why("so", MORE_MEMORY), room()) is None
