"""The linter requires what a profile sets for some jobs only, of these jobs only."""

from pathlib import Path

import pytest

from tests.conftest import Run

PROFILE = """
[node]
gpus = 4
[when.several_nodes]
nodes = "several"
env.NCCL_NET = "ofi"
"""
SCRIPT = """#!/bin/bash
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=4
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=4
#SBATCH --output=%j.out
srun --cpus-per-task=4 python train.py
"""


@pytest.mark.parametrize(("nodes", "required"), [(1, False), (2, True)])
def test_a_variable_of_some_jobs_is_required_of_these(
    nodes: int, required: bool, tmp_path: Path, slurmgen: Run
) -> None:
    (tmp_path / "site_profiles").mkdir()
    (tmp_path / "site_profiles/mine.toml").write_text(PROFILE)
    (tmp_path / "job.sh").write_text(SCRIPT.format(nodes=nodes))
    out = slurmgen("lint", "--site", "mine", "--select", "SG909", "job.sh").stdout
    assert ("mine requires NCCL_NET" in out) is required
