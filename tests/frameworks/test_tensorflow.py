"""docs/guide/tensorflow.md: its scripts on CPUs, and the faults that it names."""

import re
import shlex

import pytest

from tests.guide.pages import shown_output
from tests.guide.running import GUIDE, run
from tests.support.ports import free_port
from tests.support.ranks import Ended

from .environments import PYTHON, variables

WORKERS = GUIDE / "tensorflow_workers.py"


def tensorflow(*argv: object, **env: str) -> Ended:
    return run(PYTHON["tensorflow"], *map(str, argv), env=variables("tensorflow") | env)


def step(command: str) -> Ended:
    """Run a command as the two tasks of a Slurm step on one node."""
    tasks = [f"SLURM_PROCID={rank} SLURM_LOCALID={rank} {command} & p{rank}=$!" for rank in range(2)]
    slurm = {
        "SLURM_NTASKS_PER_NODE": "2",
        "SLURM_STEP_NODELIST": "localhost",
        "MASTER_PORT": str(free_port()),
    }
    script = "\n".join([*tasks, "wait $p0 && wait $p1"])
    return run("bash", "-c", script, env=variables("tensorflow") | slurm)


def test_mirrored_strategy_trains_two_replicas() -> None:
    done = tensorflow(GUIDE / "tensorflow_mirrored.py")
    assert done.returncode == 0, done.err
    assert done.out == shown_output("tensorflow", "python examples/guide/tensorflow_mirrored.py")


def test_two_workers_train_together() -> None:
    done = step(shlex.join(map(str, [PYTHON["tensorflow"], WORKERS])))
    assert done.returncode == 0, done.err
    shown = shown_output("tensorflow", "srun --ntasks-per-node=2 python examples/guide/tensorflow_workers.py")
    assert sorted(done.out.splitlines()) == sorted(shown.splitlines())


def test_fit_of_keras_3_fails_with_several_workers(tmp_path: object) -> None:
    text = WORKERS.read_text().replace('os.environ["TF_USE_LEGACY_KERAS"] = "1"', "")
    done = step(shlex.join([str(PYTHON["tensorflow"]), "-c", text]))
    assert done.returncode != 0
    assert "PerReplica" in done.err


@pytest.mark.parametrize(
    ("nodelist", "nodes"),
    [
        ("n1", ["n1"]),
        ("n[9-10]", ["n9", "n10"]),
        ("n[08-10,12],gpu[1],login", ["n08", "n09", "n10", "n12", "gpu1", "login"]),
    ],
)
def test_node_lists_are_expanded_in_the_order_of_slurm(nodelist: str, nodes: list[str]) -> None:
    code = f"import runpy; print(runpy.run_path({str(WORKERS)!r})['hosts']({nodelist!r}))"
    assert tensorflow("-c", code).out == f"{nodes}\n"


def test_the_resolver_of_tensorflow_sorts_nodes_by_letter() -> None:
    code = """
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(gpus_per_node=1, gpus_per_task=1)
print(resolver.cluster_spec().as_dict()["worker"])
"""
    slurm = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NODELIST": "n[9-10]"}
    done = tensorflow("-c", code, **slurm, SLURM_STEP_TASKS_PER_NODE="1(x2)")
    assert re.findall(r"n\d+:\d+", done.out) == ["n10:8888", "n9:8888"]
