"""Modules, commands, shell scripts and jobs without GPUs, sent over SSH and run by a real Slurm."""

import re
from collections.abc import Callable

import pytest

from tests.scenarios.conftest import Site
from tests.support.programs import write_programs

Start = Callable[[str], Site]
REPORT = r"""
import os

rank, ranks = os.environ.get("RANK", 0), os.environ.get("WORLD_SIZE", 1)
os.write(1, f"rank {rank} of {ranks}\n".encode())  # in one piece, so that lines of ranks do not mix
"""
SHELL = 'echo "rank ${RANK:-0} of ${WORLD_SIZE:-1}"'
PROGRAMS = {
    "module": ["--python-module", "pkg.train"],
    "command": ["--command", f"bash -c '{SHELL}'"],
    "shell": ["--script", "run.sh"],
}
TWO_NODES = ["--site", "daic", "--gpus", "4", "--nodes", "2"]


@pytest.fixture(scope="module")
def project(site: Start) -> Site:
    """A project with a package, and no script that slurmgen knows."""
    daic = site("daic")
    (daic.project / "pkg").mkdir()
    (daic.project / "pkg" / "train.py").write_text(REPORT)
    (daic.project / "run.sh").write_text(SHELL)
    return daic


@pytest.fixture(scope="module")
def submitted(project: Site) -> dict[tuple[str, str], str]:
    """All jobs, in the queue at once."""
    return {
        (framework, kind): project.submit(*TWO_NODES, "--framework", framework, *program)
        for framework in ("ddp", "accelerate", "srun")
        for kind, program in PROGRAMS.items()
    }


@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize("framework", ["ddp", "accelerate", "srun"])
def test_each_rank_runs_the_program_once(
    framework: str, kind: str, project: Site, submitted: dict[tuple[str, str], str]
) -> None:
    job = project.ended(submitted[framework, kind])
    assert (job.state, job.exit_code) == ("COMPLETED", "0:0"), job.log
    assert sorted(re.findall(r"^rank (\d) of 4$", job.log, re.MULTILINE)) == ["0", "1", "2", "3"], job.log


def test_a_job_without_gpus_runs_on_a_partition_without_gpus(site: Start) -> None:
    olivia = site("olivia")
    show = "echo CPUs $SLURM_CPUS_PER_TASK, GPUs ${SLURM_GPUS_ON_NODE:-none}, on $SLURM_JOB_PARTITION"
    (olivia.project / "show.sh").write_text(show)
    asked = ["--site", "olivia", "--gpus", "0", "--cpus", "2", "--mem", "1G", "--script", "show.sh"]
    job = olivia.ended(olivia.submit(*asked))
    assert job.log == "CPUs 2, GPUs none, on small\n"


def test_a_virtual_environment_is_first_on_path_in_a_container(site: Start) -> None:
    olivia = site("olivia")
    write_programs(olivia.project / "own" / "bin", {"python": 'echo "own python runs $*"'})
    (olivia.project / "train.py").touch()
    asked = ["--site", "olivia", "--framework", "python", "--script", "train.py", "--python-env", "venv:own"]
    assert "own python runs train.py" in olivia.ended(olivia.submit(*asked)).log.splitlines()
