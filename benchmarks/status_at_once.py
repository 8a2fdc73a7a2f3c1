"""200 `slurmgen status` at once against one site, compared with 200 `ssh HOST squeue` in the same run.

python benchmarks/status_at_once.py [COMMANDS] [ROUNDS]: sshd drops some new logins of both (MaxStartups).
slurmgen begins them again, and so does the loop around ssh: at the end, all have a reply.
"""

import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from slurmgen import twin
from slurmgen.sites.profiles import load_site
from slurmgen.slurm.commands import JobId, squeue
from slurmgen.twin import Twin

COMMANDS, ROUNDS = (int(word) for word in [*sys.argv[1:3], *("200", "3")[len(sys.argv[1:3]) :]])
GOAL = 1.5


def main() -> None:
    """Print the time and the failures of both, in alternating order, and the median ratio."""
    with _twin() as here:
        job = _submitted(here)
        where = ["--site", "generic", "--host", str(here.ssh_host), "--ssh-config", str(here.ssh_config)]
        ours = [sys.executable, "-m", "slurmgen", "status", *where, job]
        ssh = ["ssh", "-F", str(here.ssh_config), str(here.ssh_host), shlex.join(squeue(JobId(job)))]
        floor = ["sh", "-c", f"until {shlex.join(ssh)}; do sleep 0.5; done"]
        ratios = []
        for number in range(ROUNDS):
            first, second = (ours, floor) if number % 2 == 0 else (floor, ours)
            results = {id(argv): _at_once(argv) for argv in (first, second)}
            (mine, lost), (least, dropped) = results[id(ours)], results[id(floor)]
            ratios.append(mine / least)
            print(
                f"{COMMANDS} at once: status {mine:.1f} s, {lost} failed; ssh HOST squeue {least:.1f} s, "
                f"{dropped} failed; ratio {mine / least:.2f}",
                flush=True,
            )
        print(f"median ratio {statistics.median(ratios):.2f} (goal: at most {GOAL})")


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


def _submitted(here: Twin) -> str:
    """A pending job."""
    argv = ["sbatch", "--parsable", "--begin=now+1hour", "--wrap=true"]
    environ = os.environ | here.environ()
    return subprocess.run(argv, env=environ, check=True, capture_output=True, text=True).stdout.strip()


def _at_once(argv: Sequence[str]) -> tuple[float, int]:
    """Seconds until all have ended, and how many failed."""
    start = time.perf_counter()
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = [subprocess.Popen(argv, cwd=Path.home(), **quiet) for _ in range(COMMANDS)]
    failed = sum(one.wait() != 0 for one in running)
    return time.perf_counter() - start, failed


if __name__ == "__main__":
    main()
