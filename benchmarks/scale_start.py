"""The time from the start of a job to its ranks, by nodes, on a twin whose nodes share this machine.

Each job is a rendered script with one rank per node. Minimum of some rounds, in seconds after the first
command of the batch script. Up to IMPORTING ranks import torch themselves: 300 MB each. The ranks of the
other runs are copies of one process that has imported torch.

    python benchmarks/scale_start.py [NODES,NODES...]
"""

import os
import sys
import tempfile
from pathlib import Path

from slurmgen import Request, load_site, render, resolve
from tests.support.fork_server import warm
from tests.support.twins import Testbed, twin

SITE = load_site("generic")
ROUNDS, IMPORTING = 3, 32
RANK = Path(__file__).with_name("scale_rank.py")
COLUMNS = ("first task", "last task", "first rank", "last rank", "imported", "met", "reduced")


def main() -> None:
    """Print a row for each number of nodes and each kind of rank."""
    counts = [int(word) for word in (sys.argv[1:] or ["1,2,4,8,16,32,64"])[0].split(",")]
    print("nodes", "ranks", *COLUMNS, "load", sep="\t")
    with tempfile.TemporaryDirectory() as name, twin(SITE, nodes=max(counts)) as testbed:
        os.environ |= {"TEST_RUN_OWNER": str(os.getpid()), "TEST_RUN_FOLDER": name}
        measure(testbed, "forked", str(warm()), counts)
        measure(testbed, "imported", sys.executable, [count for count in counts if count <= IMPORTING])


def measure(testbed: Testbed, kind: str, python: str, counts: list[int]) -> None:
    """Print the shortest times of jobs whose ranks are started by a Python."""
    shim = testbed.folder / kind / "python"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/bash\necho "task $EPOCHREALTIME"\nexec {python} "$@"\n')
    shim.chmod(0o755)
    for nodes in counts:
        rounds = [times(testbed, nodes, f"{shim.parent}:{os.environ['PATH']}") for _ in range(ROUNDS)]
        shortest = (f"{min(column):.2f}" for column in zip(*rounds, strict=True))
        print(nodes, kind, *shortest, f"{os.getloadavg()[0]:.1f}", sep="\t", flush=True)


def times(testbed: Testbed, nodes: int, path: str) -> tuple[float, ...]:
    """The seconds of COLUMNS in one job."""
    request = Request(framework="srun", gpus=nodes, nodes=nodes, time="00:10:00", script=str(RANK))
    script = render(resolve(request, SITE))
    clock = '\nset -e -o pipefail\necho "job $EPOCHREALTIME"\n'
    log = testbed.batch(script.replace("\nset -e -o pipefail\n", clock, 1), PATH=path)
    lines = [line.split() for line in log.splitlines()]
    ((start,),) = column(lines, "job")
    (tasks,) = column(lines, "task")
    started, imported, met, reduced, totals = column(lines, "rank")
    assert set(totals) == {nodes}
    moments = (min(tasks), max(tasks), min(started), *map(max, (started, imported, met, reduced)))
    return tuple(moment - start for moment in moments)


def column(lines: list[list[str]], kind: str) -> list[tuple[float, ...]]:
    """The columns of numbers in the lines that begin with a word."""
    return list(zip(*(map(float, words) for first, *words in lines if first == kind), strict=True))


if __name__ == "__main__":
    main()
