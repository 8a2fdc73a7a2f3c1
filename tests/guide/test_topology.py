"""The page on topology: where the ranks run, and how fast they exchange data."""

import os
import re
import socket

import pytest

from tests.guide.running import ranks_of, torchrun
from tests.support.ranks import Ended


@pytest.fixture(scope="module")
def done() -> Ended:
    completed = torchrun("topology.py", "--megabytes", "0.1", "1")
    assert completed.returncode == 0, completed.err
    return completed


def test_each_rank_prints_its_host_and_its_cpus(done: Ended) -> None:
    first = min(os.sched_getaffinity(0))
    for rank in (0, 1):
        (line,) = ranks_of(done.out)[rank]
        assert line.startswith(f"host {socket.gethostname()}; CPUs {first}")


def test_each_rank_prints_its_numa_nodes_and_its_gpu(done: Ended) -> None:
    for lines in ranks_of(done.out).values():
        assert re.search(r"; NUMA nodes (\d[\d,-]*|unknown); GPU .+; RDMA adapters ", lines[0])


@pytest.mark.parametrize("row", ["0.1 MB 0 -> 1", "0.1 MB all-reduce", "1 MB 0 -> 1", "1 MB all-reduce"])
def test_each_size_has_a_bandwidth_between_two_ranks_and_of_all(done: Ended, row: str) -> None:
    found = re.search(rf"^{row}: (\S+) GB/s$", done.out, re.M)
    assert found
    assert float(found[1]) > 0
