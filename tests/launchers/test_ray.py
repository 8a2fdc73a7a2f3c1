"""The script of a Ray job: one task per node, which gets what the program is and what the node has."""

import re
import subprocess

import pytest

from slurmgen import Request, load_site, render, resolve
from slurmgen.errors import RequestError
from slurmgen.plan.explain import explain
from slurmgen.plan.placement import notes
from slurmgen.request.model import Sweep


def text(**asked: object) -> str:
    options = {"framework": "ray", "gpus": 8, "nodes": 2, "script": "train.py"} | asked
    return render(resolve(Request(**options), load_site("generic")))  # type: ignore[arg-type]


def in_task(script: str) -> str:
    """The shell script that each task runs."""
    return script.partition("bash -c '")[2].partition("'")[0]


def waiting_program(script: str) -> str:
    """The program of Python that waits for the nodes, as bash passes it on."""
    return in_task(script).partition('python -c "')[2].partition('"')[0].replace("\\\n", "")


def test_each_node_starts_ray_once_with_its_gpus() -> None:
    assert "#SBATCH --ntasks-per-node=1\n" in text()
    assert "--num-gpus=4 " in in_task(text())


def test_the_program_waits_for_all_nodes() -> None:
    assert "len(ray.nodes()) < 2," in waiting_program(text())


def test_runs_that_share_a_gpu_wait_for_ray_with_a_valid_program() -> None:
    sweep = Sweep(grid={"seed": (1, 2)}, runs_per_gpu=2)
    assert compile(waiting_program(text(gpus=1, nodes=1, sweep=sweep)), "", "exec")


def test_the_threads_of_each_worker_are_left_to_ray() -> None:
    assert "export OMP_NUM_THREADS" not in text()
    assert "# Ray sets OMP_NUM_THREADS" in in_task(text())
    assert "export OMP_NUM_THREADS=4\n" in text(env={"OMP_NUM_THREADS": "4"})
    plan = resolve(Request(framework="ray", gpus=8, script="train.py"), load_site("generic"))
    assert "Ray sets OMP_NUM_THREADS" in notes(plan)["threads"]
    assert explain(plan)["notes.threads"].text == "Ray starts its own workers on each node"


def test_ray_accepts_processes_of_the_job_only_and_has_no_dashboard() -> None:
    assert "export RAY_AUTH_MODE=token RAY_AUTH_TOKEN\n" in text()
    assert "--include-dashboard=false" in in_task(text())


def test_the_script_of_each_task_passes_shellcheck() -> None:
    command = ["shellcheck", "--shell=bash", "--severity=style", "-"]
    done = subprocess.run(command, input=in_task(text()), capture_output=True, text=True, check=False)
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ({"script": "train.py"}, "python train.py"),
        ({"script": None, "module": "pkg.train"}, "python -m pkg.train"),
        ({"script": None, "command": ("vllm", "serve")}, "vllm serve"),
    ],
)
def test_any_program_can_be_the_driver(program: dict[str, object], words: str) -> None:
    assert re.sub(r"[\s\\]+", " ", text(**program)).endswith(f"' bash {words} ")


@pytest.mark.parametrize("field", [{"launcher_args": ("--num-cpus=1",)}, {"launcher_config": "x"}])
def test_options_of_other_launchers_are_refused(field: dict[str, object]) -> None:
    with pytest.raises(RequestError, match="has no effect with ray"):
        text(**field)
