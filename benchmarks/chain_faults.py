"""Faults in runs of five segments on a real Slurm: is work lost or done twice, is a job doubled or left?

    PYTHONPATH=. python benchmarks/chain_faults.py 100 30 "node fails"

makes 100 runs for each fault, 30 at once; default: for all faults in turn. It prints a line for each run.
Each run does three units of work, one in each segment that is not disturbed, and gets one fault. Afterwards
each unit must have been done once and in order, its key must have one job, and no task may be left. A run of
which only tasks are left that Slurm holds counts as `held`; they are released, as `status` advises, and the
rest must then be right too. docs/reliability.md has the results.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from slurmgen import Request, load_site, render, resolve
from slurmgen.errors import RemoteError
from slurmgen.remote.local import LocalTransport
from slurmgen.submit.exactly_once import TIMEOUTS, Submission, Submitted, Timeouts, submit
from slurmgen.sync.files import snapshot
from slurmgen.sync.manifest import Sent, manifest
from tests.support.faults import sbatch
from tests.support.twins import Testbed, twin

FAULTS = ("node fails", "client killed", "reply lost", "segment cancelled", "time limit")
LOST = ("killed after", "hangs after", "times out after", "killed, and sbatch goes on")
UNITS, SEGMENTS = 3, 5
HURRY = Timeouts(sbatch=4, grace=1, reply=60)
"For a fault of sbatch, which hangs for that long. A controller that is busy with failing nodes needs more."
PATIENCE = 900
"Seconds without a change of its tasks after which a run is stuck."
WORK = f"""exec 9>lock; flock -n 9 || echo "two at a time" >>done
unit=$(($(wc -l <done 2>/dev/null || echo 0) + 1))
[ "$unit" -le {UNITS} ] || exit 0  # its last unit was done, but its node failed before it could say so
if [ ! -e disturbed ] && [ "$FAULT" = "time limit" ] && [ "$unit" = 2 ]; then touch disturbed; sleep 400; fi
touch "started-$unit"
case $FAULT in "node fails" | "segment cancelled") [ "$unit" != 2 ] || [ -e disturbed ] || sleep 40 ;; esac
sleep 0.$((RANDOM % 5)); echo "$unit" >>done
[ "$unit" -lt {UNITS} ] || exit 0
echo "$unit" >"$REQUEUE_FILE"; exit 75
"""


class Run:
    """One run with one fault."""

    def __init__(self, testbed: Testbed, fault: str, number: int) -> None:
        self.testbed, self.fault, self.held = testbed, fault, False
        self.key = f"fault-{FAULTS.index(fault)}-{number:05}"
        self.project = testbed.folder / "projects" / self.key
        self.project.mkdir(parents=True)
        (self.project / "work.sh").write_text(WORK)

    def submission(self) -> tuple[Submission, Sent]:
        """What is sent."""
        limit = "1" if self.fault == "time limit" else "10"
        asked = Request(gpus=0, cpus=1, mem="100M", time=limit, segments=SEGMENTS, script="work.sh")
        script = render(resolve(asked, load_site("generic"))).replace(
            "set -e", f"export FAULT='{self.fault}'\nset -e", 1
        )
        files = snapshot(self.project)
        made = Submission(
            name="work", script=script, files=files, content=manifest(files),
            parent=str(self.testbed.folder / "sent"), key=self.key, output="%x-%A.out", record="{}\n",
        )  # fmt: skip
        return made, Sent(self.testbed.folder / "manifests" / self.key)

    @property
    def folder(self) -> Path:
        """Its run folder."""
        return self.testbed.folder / "sent" / "runs" / f"work-{self.key}"

    def submit(self, home: Path) -> Submitted:
        """As the command does: repeated until the job is known."""
        environ = self.testbed.environ | {"PATH": f"{home}/bin:{os.environ['PATH']}", "HOME": str(home)}
        for _ in range(10):
            try:
                return submit(
                    LocalTransport(environ),
                    *self.submission(),
                    HURRY if self.fault == "reply lost" else TIMEOUTS,
                )
            except RemoteError as error:
                last = error
        raise last

    def killed(self, home: Path) -> None:
        """A client that gets kill -9 while it submits."""
        if child := os.fork():
            time.sleep(random.uniform(0, 0.6))  # noqa: S311
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        else:
            try:
                self.submit(home)
            finally:
                os._exit(0)

    def disturb(self, job: str) -> None:
        """Break its second segment."""
        if self.fault not in ("node fails", "segment cancelled"):
            return
        wait(lambda: (self.folder / "started-2").exists(), 300)
        while len(found := self.running(job).split()) < 2:  # another failing node may have ended it
            time.sleep(1)
        task, node = found[:2]
        (self.folder / "disturbed").touch()
        if self.fault == "segment cancelled":
            insist(self.testbed, "scancel", f"{job}_{task}")
            return
        insist(self.testbed, "scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=fault")
        # Fails if another run has done so.
        self.testbed.tried("scontrol", "update", f"NodeName={node}", "State=IDLE")

    def running(self, job: str) -> str:
        """The number and the node of its segment that runs."""
        return self.testbed.tried(
            "squeue", "--noheader", f"--jobs={job}", "--states=RUNNING", "--format=%K %N"
        )

    def verdict(self, job: str) -> str:
        """What is wrong; empty if nothing is."""
        self.end(job)
        done = (self.folder / "done").read_text().split("\n")[:-1]
        expected = ["1"] if self.fault == "segment cancelled" else [str(one + 1) for one in range(UNITS)]
        rows = self.testbed.run("squeue", "--noheader", "--states=all", "--format=%F %k").splitlines()
        jobs = {row.split()[0] for row in rows if row.endswith(f":{self.key}")}
        wrong = [] if done == expected else [f"did {done}, not {expected}"]
        wrong += [] if jobs == {job} else [f"has the jobs {jobs}: {self.records()}"]
        return "; ".join([*wrong, *(path.read_text() for path in self.folder.glob("*.out"))]) if wrong else ""

    def records(self) -> str:
        """What its submission recorded, and when."""
        records = self.testbed.folder / "sent" / "submissions" / f"work-{self.key}"
        return "\n".join(
            f"{path.name} at {path.lstat().st_mtime:.1f}: "
            + (str(path.readlink()) if path.is_symlink() else path.read_text())
            for path in sorted(records.iterdir())
        )

    def seen(self) -> str:
        """What Slurm and the run folder show of it."""
        shown = self.testbed.tried("squeue", "--noheader", "--array", "--format=%i %T %r %N %k")
        files = sorted(path.name for path in self.folder.glob("*") if path.is_file())
        logs = [path.read_text() for path in self.folder.glob("*.out")]
        return "\n".join([*(row for row in shown.splitlines() if self.key in row), *files, *logs])

    def end(self, job: str) -> None:
        """Wait until no task of it is left, for as long as its tasks change.

        Raises:
            TimeoutError: nothing changed for longer than Slurm delays a requeued task.
        """
        shown: list[str] | None = None
        while (now := self.left(job)) != []:
            if now != shown:
                shown, deadline = now, time.monotonic() + PATIENCE
            if time.monotonic() > deadline:
                raise TimeoutError
            time.sleep(1)

    def left(self, job: str) -> list[str] | None:
        """Its tasks that have not ended; None if Slurm does not reply. Those that it holds are released."""
        try:
            queue = self.testbed.run("squeue", "--noheader", "--array", "--format=%F %i %T %r %N")
        except (AssertionError, subprocess.TimeoutExpired):
            return None
        rows = [row for row in queue.splitlines() if row.split()[0] == job]
        if rows and all("held" in row for row in rows):
            self.held = True
            self.testbed.tried("scontrol", "release", ",".join(row.split()[1] for row in rows))
        return rows


def insist(testbed: Testbed, *argv: str) -> None:
    """Run a command until it succeeds: a busy controller may not reply, and a repetition changes nothing."""
    while True:
        try:
            testbed.run(*argv)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            if "timed out" not in str(error):
                raise
        else:
            return


def wait(seen: Callable[[], object], seconds: float) -> None:
    """Wait until a function returns a true value.

    Raises:
        TimeoutError: it did not in that time.
    """
    deadline = time.monotonic() + seconds
    while not seen():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(1)


def outcome(testbed: Testbed, fault: str, number: int) -> str:
    """Make a run from its submission to its end, and print how it ended: right, held or wrong."""
    run = Run(testbed, fault, number)
    home = testbed.folder / "homes" / run.key
    home.mkdir(parents=True)
    wrapper = sbatch(home)
    wrong = ""
    try:
        if fault == "client killed":
            run.killed(home)
        if fault == "reply lost":
            wrapper.next_time(run.key, LOST[number % len(LOST)])
        job = run.submit(home).job.number
        run.disturb(job)
        wrong = run.verdict(job)
    except Exception as error:  # counted as a failure
        wrong = f"{type(error).__name__}: {error}\n{run.seen()}"
    ended = "wrong" if wrong else "held" if run.held else "right"
    print(f"{fault}: {number} {ended} {wrong}", flush=True)
    return ended


def main(count: int, at_once: int = 30, *faults: str) -> None:
    """Print how each run ended, and the numbers for each fault."""
    with twin("generic", nodes=6) as testbed, ThreadPoolExecutor(at_once) as pool:
        for fault in faults or FAULTS:  # a failing node ends other runs too: each fault has its turn
            ends = pool.map(partial(outcome, testbed, fault), range(count))
            print(fault, dict(Counter(ends)), flush=True)


if __name__ == "__main__":
    assert shutil.which("sbatch")
    subprocess.run(["renice", "-n", "5", str(os.getpid())], capture_output=True, check=False)
    main(int(sys.argv[1]), *map(int, sys.argv[2:3]), *sys.argv[3:])
