"""Submission of a sweep of 1,000 tasks, compared with that of one job: whole processes, in turn, on a twin.

Both jobs are held, and both send the same project, of which nothing has changed. `--runs N` repeats each.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.support.twins import Testbed, twin

JOB = "--framework python --gpus 0 --script train.py --sbatch hold --time 00:05:00".split()
SWEEP = [
    "--sweep",
    f"seed={','.join(map(str, range(100)))}",
    "--sweep",
    f"lr={','.join(map(str, range(10)))}",
]
GOAL = 1.5


def seconds(testbed: Testbed, folder: Path, *args: str) -> float:
    """Wall time of `slurmgen submit`; the job is cancelled afterwards."""
    argv = [str(Path(sys.executable).with_name("slurmgen")), "submit", "--site", "generic", "--via", "twin"]
    environ = {**testbed.environ, "HOME": str(testbed.folder)}
    start = time.perf_counter()
    reply = subprocess.run(
        [*argv, *JOB, *args], cwd=folder, env=environ, check=True, capture_output=True, text=True
    )
    took = time.perf_counter() - start
    testbed.run("scancel", reply.stdout.strip())
    time.sleep(2.0)  # until the background work of the submission is done
    return took


def main() -> None:
    """Print the medians, the ratio and its target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=11)
    runs = parser.parse_args().runs
    with twin("generic") as testbed:
        folder = testbed.folder / "project"
        folder.mkdir()
        (folder / "train.py").write_text("pass\n")
        seconds(testbed, folder)
        times = [(seconds(testbed, folder), seconds(testbed, folder, *SWEEP)) for _ in range(runs)]
    one, many = (statistics.median(column) for column in zip(*times, strict=True))
    print(
        f"submit of a sweep of 1,000 tasks: {many:.2f} s; of one job: {one:.2f} s; "
        f"ratio {many / one:.2f} (goal: at most {GOAL})"
    )


if __name__ == "__main__":
    main()
