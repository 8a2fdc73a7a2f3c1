"""200 `slurmgen status` at once against one site, compared with 200 `ssh HOST squeue` in the same run."""

import os
import shlex
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

COMMANDS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
GOAL = 1.5


def main() -> None:
    """Print the time and the failures of both, in the order slurmgen, ssh, slurmgen, ssh."""
    with _twin() as here:
        job = _submitted(here)
        where = ["--site", "generic", "--host", str(here.ssh_host), "--ssh-config", str(here.ssh_config)]
        ours = [sys.executable, "-m", "slurmgen", "status", *where, job]
        floor = ["ssh", "-F", str(here.ssh_config), str(here.ssh_host), shlex.join(squeue(JobId(job)))]
        for _ in range(2):
            mine, lost = _at_once(ours)
            least, dropped = _at_once(floor)
            print(
                f"{COMMANDS} at once: status {mine:.1f} s, {lost} failed; ssh HOST squeue {least:.1f} s, "
                f"{dropped} failed; ratio {mine / least:.2f} (goal: at most {GOAL})"
            )


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
