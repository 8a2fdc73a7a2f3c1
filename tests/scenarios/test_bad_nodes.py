"""Jobs that find a bad node, on a real Slurm: they leave it, and later jobs exclude it."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from tests.preflight.test_faults import NVIDIA_SMI
from tests.support import command_server
from tests.support.programs import write_programs
from tests.support.twins import Testbed, eventually, twin

# A preflight that calls the first node it meets bad, and that ends the script where the test says.
PREFLIGHT = r"""

echo "ran on $SLURMD_NODENAME"
preflight=0
if [[ "$(cat bad 2>/dev/null | wc -l)" -lt "$BAD" ]]; then
  echo "$SLURMD_NODENAME" >>bad
  printf '{"schema": 1, "verdict": "bad", "nodes": [{"node": "%s", "healthy": false, "findings": [%s]}]}\n' \
    "$SLURMD_NODENAME" '{"check": "gpu-count", "text": "3 GPUs, but the others have 4"}' \
    >".preflight-$SLURM_JOB_ID.json"
  preflight=79
fi
scontrol() { command scontrol "$@" && if [[ "$1" == "$KILL_AFTER" ]]; then kill -KILL $$; fi; }
{% if plan.request.on_bad_node == "retry" %}
{% include "bad_node.j2" %}
{% endif %}
[[ "$preflight" -eq 0 ]] || exit "$preflight"
"""
TRAIN = "import os; print('trained on', os.environ['SLURMD_NODENAME'])\n"
PROJECT = '[job.train]\nsite = { generic = {} }\nframework = "python"\nscript = "train.py"\n'
FINDING = "3 GPUs, but the others have 4"


@dataclass
class User:
    """A project on a machine with a twin of four nodes."""

    testbed: Testbed
    project: str = "project"
    options: tuple[str, ...] = ()

    def __call__(self, *args: str) -> "subprocess.CompletedProcess[str]":
        return command_server.run(args, self.testbed.folder / self.project, self.testbed.environ)

    def submit(self, *args: str, bad: int = 1, kill_after: str = "nothing") -> str:
        """The id of a job that meets some bad nodes."""
        env = ("--env", f"BAD={bad}", "--env", f"KILL_AFTER={kill_after}")
        remote = ("--remote-dir", str(self.testbed.folder / "remote"), "--via", "twin")
        reply = self("submit", "train", "--preflight", *self.options, *env, *remote, *args)
        assert re.fullmatch(r"\d+\n", reply.stdout), reply.stderr
        return reply.stdout.strip()

    def end(self, job: str) -> str:
        """The state that a job ends in."""

        def state() -> str | None:
            self._release()
            found = self.testbed.run("squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}")
            return found.strip() if found.strip() in ("COMPLETED", "FAILED", "CANCELLED") else None

        return eventually(state, 240)

    def _release(self) -> None:
        """Start the jobs that Slurm holds back for two minutes after a requeue."""
        queue = self.testbed.run("squeue", "--noheader", "--array", "--states=PENDING", "--format=%i %r")
        if held := re.findall(r"^(\S+) BeginTime$", queue, re.MULTILINE):
            time.sleep(3)  # a node refuses what is started again in the very second of the requeue
        for job in held:
            self.testbed.tried("scontrol", "update", f"JobId={job}", "StartTime=now")

    def log(self, job: str) -> list[str]:
        return re.findall(r"^(?:ran|trained) on .*", self("logs", job).stdout, re.MULTILINE)

    def bad_nodes(self, job: str) -> list[str]:
        return list(json.loads(self("status", job, "--json").stdout)["bad_nodes"])


class Jobs(NamedTuple):
    """The jobs of all tests, which run at the same time."""

    user: User
    stops: str
    leaves: str
    gives_up: str
    killed_after: str
    killed_before: str
    array: str
    real: str


def _with_the_real_preflight(testbed: Testbed) -> User:
    """A project whose job runs on two nodes, with a GPU too few on the first node of its first run."""
    folder = testbed.folder / "real"
    folder.mkdir()
    size = "gpus = 4\nnodes = 2\n"
    (folder / "slurmgen.toml").write_text(PROJECT.replace('"python"', '"srun"') + size)
    (folder / "train.py").write_text(TRAIN)
    gpus = '"$([ "$SLURM_NODEID$SLURM_RESTART_COUNT" = 0 ] && echo 1 || echo 2)"'
    nvidia_smi = NVIDIA_SMI.format(gpus=gpus, used=0, ecc=0, slow="Not Active")
    programs = write_programs(testbed.folder / "programs", {"nvidia-smi": nvidia_smi})
    return User(testbed, "real", ("--env", f"PATH={programs}:$PATH"))


@pytest.fixture(scope="module")
def jobs() -> Iterator[Jobs]:
    with twin("generic", nodes=4) as testbed:
        templates = testbed.folder / "project" / "templates"
        templates.mkdir(parents=True)
        (templates / "preflight.j2").write_text(PREFLIGHT)
        (templates.parent / "slurmgen.toml").write_text(PROJECT)
        (templates.parent / "train.py").write_text(TRAIN)
        user, retry = User(testbed), ("--on-bad-node", "retry")
        yield Jobs(
            user,
            stops=user.submit(),
            leaves=user.submit(*retry, "--exclude", "127.0.0.4", bad=2),
            gives_up=user.submit(*retry, bad=9),
            killed_after=user.submit(*retry, kill_after="requeue"),
            killed_before=user.submit(*retry, kill_after="show"),
            array=user.submit(*retry, "--sbatch", "array=0"),
            real=_with_the_real_preflight(testbed).submit(*retry),
        )


def test_a_job_stops_at_a_bad_node_and_the_next_one_excludes_it(jobs: Jobs) -> None:
    user, job = jobs.user, jobs.stops
    assert user.end(job) == "FAILED"
    reply = user("wait", job)
    assert reply.returncode == 79
    (node,) = user.bad_nodes(job)
    assert f"why: not your code: node {node}: {FINDING}\n" in reply.stdout
    next_job = user.submit(bad=0)
    assert user.end(next_job) == "COMPLETED"
    shown = user.testbed.run("scontrol", "show", "job", next_job)
    assert f"ExcNodeList={node}\n" in shown


def test_a_job_leaves_two_bad_nodes_and_keeps_those_that_it_excludes(jobs: Jobs) -> None:
    assert jobs.user.end(jobs.leaves) == "COMPLETED"
    first, second, third, trained = jobs.user.log(jobs.leaves)
    assert len({first, second, third, "ran on 127.0.0.4"}) == 4
    assert trained == third.replace("ran", "trained")
    found = jobs.user.bad_nodes(jobs.leaves)
    assert [f"ran on {node}" for node in found] == [first, second]


def test_a_job_ends_after_three_tries(jobs: Jobs) -> None:
    assert jobs.user.end(jobs.gives_up) == "FAILED"
    assert len(set(jobs.user.log(jobs.gives_up))) == 3
    assert jobs.user("wait", jobs.gives_up).returncode == 79
    assert len(jobs.user.bad_nodes(jobs.gives_up)) == 3


def test_a_script_that_is_killed_in_the_requeue_trains_once(jobs: Jobs) -> None:
    assert jobs.user.end(jobs.killed_after) == "COMPLETED"
    assert len([line for line in jobs.user.log(jobs.killed_after) if line.startswith("trained")]) == 1


def test_a_script_that_is_killed_before_the_requeue_does_not_run_again(jobs: Jobs) -> None:
    assert jobs.user.end(jobs.killed_before) == "FAILED"
    assert len(jobs.user.log(jobs.killed_before)) == 1
    assert len(jobs.user.bad_nodes(jobs.killed_before)) == 1


def test_the_task_of_an_array_leaves_its_bad_node(jobs: Jobs) -> None:
    assert jobs.user.end(jobs.array) == "COMPLETED"
    assert len(jobs.user.log(f"{jobs.array}_0")) == 3


def test_the_preflight_finds_the_bad_node_and_the_job_trains_without_it(jobs: Jobs) -> None:
    assert jobs.user.end(jobs.real) == "COMPLETED"
    (bad,) = jobs.user.bad_nodes(jobs.real)
    trained = [line for line in jobs.user.log(jobs.real) if line.startswith("trained")]
    assert len(trained) == 4
    assert f"trained on {bad}" not in trained


def test_a_job_that_excludes_all_nodes_is_refused_with_advice(jobs: Jobs) -> None:
    reply = jobs.user("submit", "train", "--via", "twin", "--exclude", "127.0.0.[1-4]")
    assert reply.returncode == 3
    assert "Requested node configuration is not available. The job excludes nodes" in reply.stderr


def test_a_pending_job_for_which_no_node_is_left_says_what_to_do(jobs: Jobs) -> None:
    job = jobs.user.submit("--sbatch", "hold", "--exclude", "127.0.0.1", bad=0)
    jobs.user.testbed.run("scontrol", "update", f"JobId={job}", "ExcNodeList=127.0.0.[1-4]")
    jobs.user.testbed.run("scontrol", "release", job)

    def status() -> str | None:
        text = jobs.user("status", job).stdout
        return text if "BadConstraints" in text else None

    text = eventually(status, 240)
    jobs.user.testbed.run("scancel", job)
    assert "  excludes: 127.0.0.[1-4]\n" in text
    assert f"  do: Run `slurmgen cancel {job}`." in text
