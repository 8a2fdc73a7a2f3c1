"""`slurmgen status` of 200 jobs over SSH, compared with one `ssh HOST squeue`, and its number of queries."""

import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from slurmgen import twin
from slurmgen.remote.route import Route, open_route
from slurmgen.remote.transport import Completed, Transport, command_name
from slurmgen.sites.profiles import load_site
from slurmgen.slurm.commands import JobId, squeue
from slurmgen.status.job import Job
from slurmgen.status.query import query
from slurmgen.twin import Twin

JOBS, ROUNDS = 200, 7


def main() -> None:
    """Print the counts, and the times with their ratio."""
    with _twin() as here:
        way = Route(site="generic", via="ssh", host=here.ssh_host, ssh_config=str(here.ssh_config))
        jobs = _submitted(here)
        print(f"status of {JOBS} jobs: {_counted(way, jobs)}")
        where = ["--site", way.site, "--host", str(way.host), "--ssh-config", str(way.ssh_config)]
        ours = [sys.executable, "-m", "slurmgen", "status", *where, *map(str, jobs)]
        floor = ["ssh", "-F", str(way.ssh_config), str(way.host), shlex.join(squeue(*jobs))]
        times: dict[str, list[float]] = {"ours": [], "floor": []}
        for _ in range(ROUNDS):
            times["ours"].append(_seconds(ours))
            times["floor"].append(_seconds(floor))
        mine, least = median(times["ours"]), median(times["floor"])
        print(f"{mine * 1000:.0f} ms; ssh HOST squeue: {least * 1000:.0f} ms; ratio {mine / least:.2f}")


@contextmanager
def _twin() -> Iterator[Twin]:
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        patch.dict(os.environ, {"XDG_STATE_HOME": folder}),
    ):
        started = twin.up(load_site("generic"), 1, ssh=True)
        try:
            yield started
        finally:
            twin.down("generic")


def _submitted(here: Twin) -> list[JobId]:
    """Pending jobs, named individually."""
    argv = ["sbatch", "--parsable", f"--array=1-{JOBS}", "--begin=now+1hour", "--wrap=true"]
    environ = os.environ | here.environ()
    number = subprocess.run(argv, env=environ, check=True, capture_output=True, text=True).stdout.strip()
    return [JobId(f"{number}_{task}") for task in range(1, JOBS + 1)]


def _counted(way: Route, jobs: list[JobId]) -> str:
    """The number of logins, and the remote commands."""
    asked: Counter[str] = Counter()

    def connect(to: Route) -> Transport:
        asked["login"] += 1
        far = open_route(to)
        far.run = _counting(far.run, asked)  # type: ignore[method-assign]
        return far

    reports = query([Job(job, way) for job in jobs], connect)
    assert {report.state for report in reports} == {"PENDING"}
    return ", ".join(f"{number} {name}" for name, number in asked.items())


def _counting(run: Callable[..., Completed], asked: Counter[str]) -> Callable[..., Completed]:
    def counted(argv: Sequence[str], **more: Any) -> Completed:
        asked[command_name(argv)] += 1
        return run(argv, **more)

    return counted


def _seconds(argv: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(argv, check=True, capture_output=True, cwd=Path.home(), timeout=120)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
