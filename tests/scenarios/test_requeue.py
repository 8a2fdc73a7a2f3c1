"""Jobs cut short on a real Slurm, put back in the queue by their own script, and ended as if never cut."""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slurmgen import Request, load_site, render, resolve
from tests.conftest import AT_EXIT, REPOSITORY
from tests.scenarios.conftest import Site
from tests.support.twins import NOT_ENDED, Testbed, eventually

BIN = Path(sys.executable).parent  # not that of fork_server.py, whose ranks get no signals from Slurm
SIZE = ("--batch-size", "68", "--epochs", "2")  # 44 steps
EXAMPLES = REPOSITORY / "examples" / "requeue"
TRAIN = ("--task", "mnist", "--data", "digits", *SIZE, "--crop-padding", "2")
SLOW = '''"""The bundled training with a rest after each of its 44 steps, 92 seconds in all.

A go of a one-minute job lasts 45 seconds: more than two are needed, however fast the machine.
"""

import runpy
import sys
import time

from torch.optim.optimizer import register_optimizer_step_post_hook

register_optimizer_step_post_hook(lambda *given: time.sleep(2.1))
sys.path.insert(0, "{training}")
runpy.run_path("{training}/train_ddp.py", run_name="__main__")
'''


class Job:
    """One request on the twin, submitted with sbatch, without slurmgen."""

    def __init__(self, testbed: Testbed, name: str, **asked: object) -> None:
        self.testbed, self.folder = testbed, testbed.folder / name
        self.folder.mkdir()
        request = Request(name=name, python_env=f"venv:{BIN.parent}", requeue=True, **asked)  # type: ignore[arg-type]
        script = self.folder / "job.sbatch"
        script.write_text(render(resolve(request, load_site("generic"))))
        self.id = testbed.run("sbatch", "--parsable", f"--chdir={self.folder}", str(script)).strip()

    @property
    def log(self) -> str:
        return "".join(path.read_text() for path in self.folder.glob("*.out"))

    @property
    def goes(self) -> int:
        """How often the ranks started."""
        return len(re.findall(r"^rank 0/2 local_rank 0 host", self.log, re.MULTILINE))

    @property
    def ends(self) -> set[str]:
        return set(re.findall(r"^rank \d/2 (final_loss .*)$", self.log, re.MULTILINE))

    def signal(self) -> None:
        """Send USR2 to its ranks as soon as they train."""
        eventually(lambda: "starts at step" in self.log, 480)
        self.testbed.run("scancel", "--signal=USR2", self.id)

    def wait(self, seconds: float) -> str:
        """The state it ends in; while waiting, no requeued job is held back for two minutes."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            shown = self.testbed.run("scontrol", "--oneliner", "show", "job", self.id)
            state = re.findall(r"JobState=(\S+)", shown)[0]
            if state not in NOT_ENDED:
                return state
            if state == "PENDING" and "Priority=0 " in shown and "requeued" in shown:
                return "held"
            self._release()
            time.sleep(0.5)
        raise AssertionError(f"job {self.id} has not ended:\n{self.log}")

    def _release(self) -> None:
        queue = self.testbed.run("squeue", "--noheader", "--states=PENDING", "--format=%A %r")
        if all_held := re.findall(r"^(\d+) BeginTime$", queue, re.MULTILINE):
            time.sleep(3)  # a node refuses what is started again in the very second of the requeue
        for held in all_held:
            start = ["scontrol", "update", f"JobId={held}", "StartTime=now"]
            # It may have started by itself since.
            subprocess.run(start, env=self.testbed.environ, capture_output=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def examples(site: Callable[[str], Site]) -> dict[str, Job]:
    """The scripts of docs/requeue.md; those for USR2 get it as soon as they train."""
    testbed = site("generic").testbed

    def job(name: str, framework: str, how: str = "USR2", steps: int = 12, **asked: object) -> Job:
        asked = {"gpus": 2, "time": "10", "script": str(EXAMPLES / f"{name}.py"), **asked}
        env = {"STEPS": str(steps), "NO_GPU": "1", "PYTHONPATH": AT_EXIT}
        return Job(testbed, name, framework=framework, nodes=1, requeue_signal=how, env=env, **asked)

    stuck = testbed.folder / "stuck.py"
    stuck.write_text("raise SystemExit(75)")
    started = {
        "watch_file": job("watch_file", "python", "file@90", 40, gpus=1, time="2"),
        "terminated": job("terminated", "ddp", "TERM@60", 70, time="2"),
        "stuck": job("stuck", "python", gpus=1, script=str(stuck)),
    }
    # The others, which import PyTorch all at once, do not take its time.
    eventually(lambda: "starts at step" in started["terminated"].log, 480)
    signalled = {
        "plain": job("plain", "ddp"),
        "with_lightning": job("with_lightning", "lightning"),
        "with_accelerate": job("with_accelerate", "accelerate"),
        "with_spawn": job("with_spawn", "spawn"),
    }
    with ThreadPoolExecutor() as pool:
        list(pool.map(Job.signal, signalled.values()))
    return started | signalled


@pytest.mark.parametrize(
    "name", ["watch_file", "terminated", "plain", "with_lightning", "with_accelerate", "with_spawn"]
)
def test_an_example_of_the_documentation_is_requeued_continues_and_ends(
    name: str, examples: dict[str, Job]
) -> None:
    job = examples[name]
    assert job.wait(480) == "COMPLETED", job.log
    starts = [int(step) for step in re.findall(r"starts at step (\d+)", job.log)]
    assert starts[0] == 0 < starts[-1], job.log
    assert "finished at step" in job.log
    assert not list(job.folder.glob(".[rp]*")), "files are left"


def test_a_script_that_spawns_its_ranks_ends_with_their_exit_status(examples: dict[str, Job]) -> None:
    job = examples["with_spawn"]
    assert job.wait(480) == "COMPLETED", job.log
    assert set(re.findall(r"Exited with exit code (\d+)", job.log)) == {"75"}
    assert "Traceback" not in job.log


def test_a_job_without_progress_in_two_runs_is_held_with_the_reason(examples: dict[str, Job]) -> None:
    job = examples["stuck"]
    assert job.wait(480) == "held", job.log
    runs = re.findall(
        r"^slurmgen: run (\d) is unfinished, no step recorded, (\d) .*: scontrol (\w+)$", job.log, re.M
    )
    assert runs == [("1", "1", "requeue"), ("2", "2", "requeuehold")]


INTO = ("--run-dir", "run")


def trained(testbed: Testbed, name: str, framework: str, *flags: str, **asked: object) -> Job:
    """A job of the bundled training."""
    words = (*TRAIN, "--data-dir", str(testbed.folder / "data"), *flags)
    said = {"script": str(testbed.folder / f"training/train_{framework}.py"), "time": "10", **asked}
    return Job(testbed, name, framework=framework, gpus=2, nodes=1, script_args=words, **said)


@pytest.fixture(scope="module")
def jobs(site: Callable[[str], Site], examples: dict[str, Job]) -> dict[str, Job]:
    """All jobs but one, run at the same time; the whole one is not cut."""
    testbed = site("generic").testbed
    training = shutil.copytree(REPOSITORY / "training", testbed.folder / "training")
    ddp = str(training / "train_ddp.py")
    # The time is up whenever a rank looks, which is after each of the two epochs.
    cut = {"env": {"SLURM_JOB_END_TIME": "1"}}
    flags = (*INTO, "--check-every", "100")
    return {
        "whole": trained(testbed, "whole", "ddp"),
        "error": trained(testbed, "error", "ddp", *INTO, "--crash-rank", "1", "--crash-step", "20"),
        "lightning": trained(testbed, "lightning", "lightning", *flags, **cut),
        "srun": trained(testbed, "srun", "srun", *flags, script=ddp, **cut),
        "accelerate": trained(testbed, "accelerate", "accelerate", *flags, **cut),
    }


@pytest.fixture(scope="module")
def minute(jobs: dict[str, Job]) -> Job:
    """A job with a limit of one minute; the others have ended, and do not take its time."""
    for job in jobs.values():
        job.wait(480)
    testbed = jobs["whole"].testbed
    slow = testbed.folder / "slow.py"
    slow.write_text(SLOW.format(training=testbed.folder / "training"))
    return trained(testbed, "minute", "ddp", *INTO, "--check-every", "1", script=str(slow), time="1")


@pytest.mark.parametrize("framework", ["lightning", "srun", "accelerate"])
def test_a_job_whose_time_is_up_goes_on_until_it_ends_as_one_uninterrupted_run_does(
    framework: str, jobs: dict[str, Job]
) -> None:
    assert jobs["whole"].wait(480) == "COMPLETED", jobs["whole"].log
    assert jobs[framework].wait(480) == "COMPLETED", jobs[framework].log
    assert jobs[framework].goes == 2
    assert jobs[framework].ends == jobs["whole"].ends
    assert not list(jobs[framework].folder.glob(".requeue*"))


def test_a_real_error_is_not_tried_again(jobs: dict[str, Job]) -> None:
    assert jobs["error"].wait(480) == "FAILED", jobs["error"].log
    assert jobs["error"].goes == 1


def test_a_one_minute_job_that_needs_three_goes_ends_as_one_uninterrupted_run_does(
    jobs: dict[str, Job], minute: Job
) -> None:
    assert minute.wait(600) == "COMPLETED", minute.log
    assert minute.goes >= 3
    assert len(jobs["whole"].ends) == 1
    assert minute.ends == jobs["whole"].ends
