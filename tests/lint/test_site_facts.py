"""Advice that depends on the facts of a site."""

import pytest

from slurmgen import Site, lint
from slurmgen.sites.model import Gpu, GpuType, Partition


@pytest.mark.parametrize("option", ["--partition=other", "--gres=gpu:other:1"])
def test_a_name_that_an_incomplete_list_lacks_is_accepted(option: str) -> None:
    site = Site(name="x", partitions={"gpu": Partition()}, gpu=Gpu(types={"a100": GpuType()}))
    script = f"#!/bin/bash\n#SBATCH --gres=gpu:a100:1 {option}\nsrun python train.py\n"
    assert {"SG901", "SG905"}.isdisjoint(one.rule.code for one in lint.lint(script, site))


def test_a_job_with_gpus_is_not_advised_to_use_a_partition_without_gpus() -> None:
    partitions = {"gpu-long": Partition(), "gpu-cpus": Partition(max_gpus=0)}
    script = "#!/bin/bash\n#SBATCH --partition=gpu-cpu\n{}srun python train.py\n"
    site = Site(name="x", complete=("partitions",), partitions=partitions)
    (with_gpus,) = lint.lint(script.format("#SBATCH --gres=gpu:1\n"), site)
    assert with_gpus.finding.advice == "Known: gpu-long."
    (without,) = lint.lint(script.format(""), site)
    assert "gpu-cpus" in without.finding.advice
