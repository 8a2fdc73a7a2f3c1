"""Advice that depends on the facts of a site."""

from slurmgen import Site, lint
from slurmgen.sites.model import Partition


def test_a_job_with_gpus_is_not_advised_to_use_a_partition_without_gpus() -> None:
    partitions = {"gpu-long": Partition(), "gpu-cpus": Partition(max_gpus=0)}
    script = "#!/bin/bash\n#SBATCH --partition=gpu-cpu\n{}srun python train.py\n"
    (with_gpus,) = lint.lint(script.format("#SBATCH --gres=gpu:1\n"), Site(name="x", partitions=partitions))
    assert with_gpus.finding.advice == "Known: gpu-long."
    (without,) = lint.lint(script.format(""), Site(name="x", partitions=partitions))
    assert "gpu-cpus" in without.finding.advice
