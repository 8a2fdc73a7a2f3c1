"""docs/guide/lightning.md: its script in one process, as two tasks of a Slurm step, and under a real srun."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.support.fork_server import warm
from tests.support.ranks import Ended
from tests.support.twins import twin

from .pages import shown_output
from .running import GUIDE, TWO_BY_TWO, python, run, slurm_step

SCRIPT = "lightning_trainer.py"


def ranks(done: Ended) -> list[tuple[str, str]]:
    return sorted(re.findall(r"rank (\d) of (\d): local rank", done.out))


def ends(done: Ended) -> set[tuple[str, str]]:
    """Accuracy and number of steps that the ranks print last."""
    return set(re.findall(r"accuracy ([\d.]+) after (\d+) steps", done.out))


def test_one_process_trains_without_slurm(tmp_path: Path) -> None:
    done = python(SCRIPT, "--run-dir", str(tmp_path))
    assert done.returncode == 0, done.err
    assert (ranks(done), {steps for _, steps in ends(done)}) == ([("0", "1")], {"48"})


def test_two_tasks_share_the_data_and_one_prepares_it(tmp_path: Path) -> None:
    done = slurm_step(SCRIPT, "--run-dir", str(tmp_path))
    assert done.returncode == 0, done.err
    assert ranks(done) == [("0", "2"), ("1", "2")]
    assert done.out.count("preparing data") == 1
    shown = shown_output("lightning", "srun --ntasks-per-node=2 python examples/guide/lightning_trainer.py")
    ((here, steps),), ((there, shown_steps),) = ends(done), ends(Ended([0], shown, ""))
    assert steps == shown_steps
    assert float(here) == pytest.approx(float(there), abs=0.02)  # another processor rounds differently


def test_a_run_continues_from_the_last_checkpoint(tmp_path: Path) -> None:
    assert python(SCRIPT, "--run-dir", str(tmp_path), "--epochs", "1").returncode == 0
    done = python(SCRIPT, "--run-dir", str(tmp_path), "--epochs", "2")
    assert "Restoring states from the checkpoint path" in done.err
    assert {steps for _, steps in ends(done)} == {"32"}


def test_a_signal_saves_and_exits_with_75(tmp_path: Path) -> None:
    """The callback of the script, called with a trainer whose other rank got the signal."""
    code = f"""
import os, signal, sys
sys.path.insert(0, {str(GUIDE)!r})
import lightning_trainer as script
class Stop(script.SaveBeforeTheLimit):
    def on_train_batch_end(self, trainer, *rest):
        if trainer.global_step == 5:
            os.kill(os.getpid(), signal.SIGUSR2)
        super().on_train_batch_end(trainer, *rest)
script.SaveBeforeTheLimit = Stop
sys.argv = ["train", "--run-dir", {str(tmp_path)!r}]
script.main()
"""
    assert run(sys.executable, "-c", code).returncode == 75
    assert (tmp_path / "checkpoints" / "last.ckpt").exists()


def test_two_devices_for_one_task_per_node_are_refused() -> None:
    code = """
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
Trainer(devices=2, accelerator="cpu", logger=False, enable_checkpointing=False).fit(BoringModel())
"""
    slurm = {
        "SLURM_NTASKS": "1",
        "SLURM_NTASKS_PER_NODE": "1",
        "SLURM_JOB_NAME": "train",
        "SLURM_NNODES": "1",
    }
    rank = {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_JOB_ID": "1"}
    done = run(sys.executable, "-c", code, env=slurm | rank)
    assert "You set `devices=2` in Lightning, but the number of tasks per node" in done.err


def test_the_script_runs_on_two_nodes_of_a_real_slurm(tmp_path: Path) -> None:
    with twin("daic", nodes=2) as testbed:
        argv = [str(warm()), str(GUIDE / SCRIPT), "--run-dir", str(tmp_path), "--epochs", "1"]
        srun = f"srun --cpus-per-task=1 {shlex.join(argv)}"
        head = "#!/bin/bash\nexport OMP_NUM_THREADS=1\n"
        log = testbed.batch(head + srun, "--nodes=2", "--ntasks-per-node=2", "--account=a", "--time=10")
    assert sorted(re.findall(r"rank (\d) of 4: local rank (\d), node (\d)", log)) == TWO_BY_TWO
    assert log.count("preparing data") == 1
