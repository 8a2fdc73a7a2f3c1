"""Faults that are not those of a node: the check ends with 1 and says why, and no node is blamed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.preflight.checks import PROGRAM, PYTHON
from tests.support.programs import write_programs

SHORT = "import nodes; nodes.JOIN = nodes.Limit(0.1, 0.1); import controller; controller.JOIN = nodes.JOIN"


def run(folder: Path, *command: str, first: str = "pass") -> subprocess.CompletedProcess[str]:
    """Check one node, after some Python."""
    start = f"runpy.run_path({PROGRAM!r}, run_name='__main__')"
    code = f"import sys, runpy; sys.path.insert(0, {PROGRAM!r}); {first}; {start}"
    return subprocess.run(
        [*PYTHON, "-c", code, "job", "--", *command],
        cwd=folder,
        env={**os.environ, "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "127.0.0.1", "SLURM_NODEID": "0"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (["no-such-program"], "cannot start `no-such-program`: no such file or directory"),
        (["true"], "no node was checked; `true` ended with 0"),
        (["false"], "no node was checked; `false` ended with 1"),
    ],
)
def test_a_command_that_starts_no_node_is_named(tmp_path: Path, command: list[str], text: str) -> None:
    reply = run(tmp_path, *command)
    assert (reply.returncode, reply.stderr) == (1, f"preflight: {text}\n")


def test_a_missing_command_is_an_error_of_usage(tmp_path: Path) -> None:
    reply = run(tmp_path)
    assert reply.returncode == 2
    assert reply.stderr.endswith("error: the command that starts the nodes is missing after --\n")


def test_a_command_that_starts_nothing_in_time_is_named(tmp_path: Path) -> None:
    reply = run(tmp_path, "sleep", "60", first=SHORT)
    text = "no node was checked: none has connected after 0 s, and `sleep` still ran"
    assert (reply.returncode, reply.stderr) == (1, f"preflight: {text}\n")


def test_healthy_nodes_pass_although_no_folder_can_be_made(tmp_path: Path) -> None:
    (tmp_path / ".preflight-7.d").touch()
    reply = run(tmp_path, *PYTHON, PROGRAM, "node")
    assert (reply.returncode, reply.stderr) == (
        0,
        "preflight: no node can write to the job's folder: file exists\n",
    )
    assert reply.stdout.endswith("verdict: 1 node, all healthy\n")


def test_healthy_nodes_pass_although_no_report_can_be_written(tmp_path: Path) -> None:
    (tmp_path / ".preflight-7.json").mkdir()
    reply = run(tmp_path, *PYTHON, PROGRAM, "node")
    assert (reply.returncode, reply.stderr) == (0, "preflight: .preflight-7.json: Is a directory\n")


def test_an_exception_of_any_name_is_a_finding(tmp_path: Path) -> None:
    broken = "import node, gpus; gpus.listed = lambda: next(iter(()))"
    code = f"import sys; sys.path.insert(0, {PROGRAM!r}); {broken}; node.main()"
    reply = run(tmp_path, sys.executable, "-S", "-c", code)
    assert (reply.returncode, reply.stderr) == (79, "")
    assert "127.0.0.1: BAD: examining itself: StopIteration: \n" in reply.stdout


def test_a_message_among_the_gpus_is_not_counted(tmp_path: Path) -> None:
    listed = "Unable to determine the device handle for GPU 0000:C1:00.0: Unknown Error"
    write_programs(tmp_path, {"nvidia-smi": f"echo '{listed}'\necho 'H100, 9, 1, 1, 1, 0, Not Active'"})
    code = f"import sys; sys.path.insert(0, {PROGRAM!r}); import gpus; print(len(gpus.listed()[0]))"
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert subprocess.check_output([*PYTHON, "-c", code], env=env, text=True) == "1\n"


def test_healthy_nodes_pass_although_the_folder_is_full(tmp_path: Path) -> None:
    full = "import node; node.Node._write = lambda *_: 'no space left on device'"
    code = f"import sys; sys.path.insert(0, {PROGRAM!r}); {full}; node.main()"
    reply = run(tmp_path, sys.executable, "-S", "-c", code)
    text = "preflight: no node can write to the job's folder: no space left on device\n"
    assert (reply.returncode, reply.stderr) == (0, text), reply.stdout
