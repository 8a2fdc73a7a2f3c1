"""`slurmgen top`, `shell`, `port` and `run` beside real jobs of a twin."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema
import pytest

from slurmgen.cli.objects.schema import schema_of
from tests.conftest import Run
from tests.support.sshd import Server
from tests.support.terminals import terminal
from tests.support.twins import Testbed, eventually

Call = Callable[..., "subprocess.CompletedProcess[str]"]
SLEEPS = "import time\nprint('up', flush=True)\ntime.sleep(300)\n"


@pytest.fixture
def environ(testbed: Testbed, login_node: Server) -> dict[str, str]:
    own = {"XDG_STATE_HOME": testbed.environ["XDG_STATE_HOME"], "HOME": str(login_node.home)}
    return {**os.environ, **own, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


@pytest.fixture(params=["ssh", "openssh", "twin"])
def job(
    request: pytest.FixtureRequest,
    slurmgen: Run,
    environ: dict[str, str],
    tmp_path: Path,
    login_node: Server,
) -> Iterator[str]:
    """The id of a running job on two nodes, submitted by each route."""
    (tmp_path / "sleeps.py").write_text(SLEEPS)
    ssh = ["--host", "far", "--ssh-config", login_node.config(tmp_path)]
    route = {"twin": ["--via", "twin"], "ssh": ssh, "openssh": [*ssh, "--ssh-client", "openssh"]}
    words = ["--site", "generic", *route[request.param], "--time", "00:05:00", "--env", "COLOUR=a b"]
    words += ["--framework", "srun", "--gpus", "2", "--nodes", "2", "--script", "sleeps.py"]
    reply = slurmgen("submit", *words, env=environ)
    assert reply.returncode == 0, reply.stderr
    id_ = reply.stdout.strip()
    eventually(lambda: "up" in slurmgen("logs", id_, env=environ).stdout)
    yield id_
    slurmgen("cancel", id_, env=environ)


def test_top_of_a_job_has_a_line_for_each_gpu(slurmgen: Run, environ: dict[str, str], job: str) -> None:
    shown = slurmgen("top", job, env=environ)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[0].startswith(f"job {job} (sleeps) at generic is RUNNING for ")
    assert [line.split()[1:5] for line in lines if " GPU " in line and "%" in line][:2] == [
        ["GPU", "0", "50", "%"],
        ["GPU", "0", "50", "%"],
    ]
    assert "no idle GPU: on average 50 % of 2 GPUs" in lines
    assert "a stand-in for nvidia-smi reports them" in shown.stdout
    sample = json.loads(slurmgen("top", job, "--json", env=environ).stdout)
    jsonschema.validate(sample, schema_of("top"))
    assert (sample["stand_in"], len(sample["gpus"]), sample["problem"]) == (True, 2, "")
    assert len({gpu["node"] for gpu in sample["gpus"]}) == 2
    everything = slurmgen("top", env=environ)
    assert f"{job} " in everything.stdout
    assert "RUNNING" in everything.stdout


def test_a_command_runs_in_the_folder_and_environment_of_the_job(
    slurmgen: Run, environ: dict[str, str], job: str
) -> None:
    code = 'echo "$COLOUR|$SLURM_JOB_ID|$SLURMD_NODENAME"; ls sleeps.py; cat; exit 7'
    ran = slurmgen("shell", job, "--", "sh", "-c", code, env=environ, input="typed")
    assert ran.returncode == 7, ran.stderr
    lines = ran.stdout.splitlines()[-3:]  # a login shell may print before it
    colour, id_, node = lines[0].split("|")
    assert (colour, id_, lines[1:]) == ("a b", job, ["sleeps.py", "typed"])
    names = json.loads(slurmgen("top", job, "--json", env=environ).stdout)["gpus"]
    other = next(gpu["node"] for gpu in names if gpu["node"] != node)
    there = slurmgen("shell", job, "--node", other, "--", "printenv", "SLURMD_NODENAME", env=environ)
    assert there.stdout.endswith(f"{other}\n")
    wrong = slurmgen("shell", job, "--node", "n9", env=environ)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert f"job {job} does not run on n9" in wrong.stderr

    # With a terminal: a shell that answers, sees the size of the terminal, and survives ^C.
    with terminal(["shell", job], environ) as shell:
        shell.type("echo =$((6 * 7)) $COLOUR=; stty size\n")
        shell.sees("=42 a b=")
        shell.sees("33 77")
        shell.type("sleep 200\n")
        time.sleep(0.5)
        shell.type("\x03")
        shell.type("echo still=$((5 + 4))\n")
        shell.sees("still=9")
        shell.type("exit 5\n")
        assert shell.ended() == 5


@pytest.mark.parametrize("job", ["twin"], indirect=True)
def test_a_job_that_does_not_run_has_no_shell(slurmgen: Run, environ: dict[str, str], job: str) -> None:
    slurmgen("cancel", job, env=environ)
    slurmgen("wait", job, env=environ)
    for command in ("top", "shell"):
        reply = slurmgen(command, job, env=environ)
        assert (reply.returncode, reply.stdout) == (2, "")
        assert f"job {job} is CANCELLED, not RUNNING. `slurmgen status {job}` shows why." in reply.stderr


def test_run_ends_with_the_exit_code_of_the_job_and_cancels_it_on_interrupt(
    slurmgen: Run, environ: dict[str, str], tmp_path: Path, login_node: Server
) -> None:
    (tmp_path / "fails.py").write_text("print('one')\nraise SystemExit(3)\n")
    (tmp_path / "sleeps.py").write_text(SLEEPS)
    ssh = ["--host", "far", "--ssh-config", login_node.config(tmp_path)]
    words = ["run", "--site", "generic", *ssh, "--framework", "python", "--time", "00:05:00", "--script"]
    ran = slurmgen(*words, "fails.py", env=environ)
    assert ran.returncode == 3, ran.stderr
    assert ran.stdout.startswith("one\n")
    assert "submitted job " in ran.stderr
    with terminal([*words, "sleeps.py"], environ, cwd=tmp_path) as run:
        run.sees("\nup")
        run.type("\x03")
        run.sees("asked Slurm to cancel job ")
        assert run.ended() == 130
    job = slurmgen("wait", "sleeps", env=environ)
    assert (job.returncode, "is CANCELLED" in job.stdout) == (143, True)
