"""Runs a script under a launcher as a job of a twin's two nodes, each with two stand-in GPUs."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import structs

from slurmgen import Request, Site, load_site, render, resolve
from slurmgen.sites.model import Launch
from tests.guide.running import REPOSITORY
from tests.support.twins import Testbed, twin

EXAMPLES = REPOSITORY / "examples" / "launchers"
SECONDS = 300.0


class Jobs:
    """Jobs of one launcher on a twin; they run the Python of a virtual environment."""

    def __init__(self, testbed: Testbed, site: Site, framework: str, environment: Path) -> None:
        self.testbed, self.site, self.framework, self.environment = testbed, site, framework, environment

    def run(self, text: str, gpus: int = 4) -> tuple[str, str]:
        """The final state and the log of a job on two nodes that runs a script."""
        folder = self.testbed.folder
        (folder / "train.py").write_text(text)
        asked = Request(
            framework=self.framework,
            gpus=gpus,
            nodes=2,
            account="a",
            cpus_per_gpu=2,
            script="train.py",
            python_env=f"venv:{self.environment}",
            modules=(),
            env={"OMP_NUM_THREADS": "1"},
        )
        script = render(resolve(asked, self.site))
        (folder / "job.sbatch").write_text(script)
        job = self.testbed.run("sbatch", "--parsable", "--output=log", "job.sbatch").strip()
        state = self.testbed.wait(job, SECONDS)
        return state, (folder / "log").read_text()


@contextmanager
def two_nodes(framework: str, environment: Path) -> Iterator[Jobs]:
    """A twin of DAIC, whose two nodes are this machine. Its MPI is that of the wheel: PMI-2."""
    site = structs.replace(load_site("daic"), launch=Launch(mpi="pmi2"))
    with twin(site) as testbed:
        yield Jobs(testbed, site, framework, environment)


def example(framework: str) -> str:
    return (EXAMPLES / f"train_{framework}.py").read_text()


def sums(log: str) -> list[tuple[str, ...]]:
    """What each line `rank R of N: the sum over all ranks is S` says, sorted."""
    return sorted(re.findall(r"^rank (\d+)(?: of (\d+))?.*: the sum over all.* is (\d+)$", log, re.M))


def with_fault(text: str, before: str, rank: str) -> str:
    """A script in which rank 1 fails, before the line that begins so; the others wait for it."""
    assert text.count(f"    {before}") == 1
    return text.replace(
        f"    {before}", f"    if {rank} == 1:\n        raise ValueError('a fault')\n    {before}"
    )
