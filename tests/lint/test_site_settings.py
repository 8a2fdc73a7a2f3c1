"""What a profile sets for some jobs only is recommended for these jobs only."""

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


@pytest.mark.parametrize(("nodes", "recommended"), [(1, False), (2, True)])
def test_a_variable_of_some_jobs_is_recommended_for_these(
    nodes: int, recommended: bool, tmp_path: Path, slurmgen: Run
) -> None:
    (tmp_path / "site_profiles").mkdir()
    (tmp_path / "site_profiles/mine.toml").write_text(PROFILE)
    (tmp_path / "job.sh").write_text(SCRIPT.format(nodes=nodes))
    out = slurmgen("lint", "--site", "mine", "--select", "SG911", "job.sh").stdout
    assert ("mine recommends NCCL_NET" in out) is recommended


@pytest.mark.parametrize("size", ["--nodes=1", "--ntasks-per-node=1", "--ntasks=2"])
def test_a_refused_job_is_reported_also_if_its_header_states_no_nodes(size: str, slurmgen: Run) -> None:
    header = f"#SBATCH --gpus-per-node=a100_1g.5gb:2\n#SBATCH {size}\n"
    script = f"#!/bin/bash\n{header}srun python train.py\n"
    out = slurmgen("lint", "-", "--site", "narval", "--select", "SG910", input=script).stdout
    assert "narval refuses such a job: NCCL cannot use several parts of a GPU" in out


@pytest.mark.parametrize(
    ("name", "site"), [("job.sbatch", "mine"), ("a.generic.sbatch", "generic"), ("a.b.sbatch", "mine")]
)
def test_lint_uses_the_site_that_submit_uses(name: str, site: str, tmp_path: Path, slurmgen: Run) -> None:
    (tmp_path / "site_profiles").mkdir()
    (tmp_path / "site_profiles/mine.toml").write_text(PROFILE)
    (tmp_path / "slurmgen.toml").write_text('site = "mine"')
    (tmp_path / name).write_text(SCRIPT.format(nodes=2))
    out = slurmgen("lint", "--select", "SG911", name).stdout
    assert ("mine recommends NCCL_NET" in out) is (site == "mine")
    submitted = slurmgen("submit", name, "--dry-run", "--no-lint", "--via", "local")
    assert f"would submit to site {site}" in submitted.stderr
