"""Runs the guide's scripts."""

import re
import sys
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.support.ports import free_port
from tests.support.ranks import GRACE, Ended, launched, start

GUIDE = REPOSITORY / "examples" / "guide"
TWO_BY_TWO = [("0", "0", "0"), ("1", "1", "0"), ("2", "0", "1"), ("3", "1", "1")]
"Rank, local rank and node of two ranks on each of two nodes."


def run(
    *argv: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None, cold: bool = False
) -> Ended:
    """Run a command in a clean environment, and end all its processes afterwards."""
    return start([(argv, env or {})], cwd, cold).ended()


def python(script: str | Path, *args: str, **more: object) -> Ended:
    """Run a script of examples/guide (or any path) in one process, without a launcher."""
    return run(sys.executable, GUIDE / script, *args, **more)  # type: ignore[arg-type]


def torchrun(script: str | Path, *args: str, ranks: int = 2, **more: object) -> Ended:
    """Run a script of examples/guide (or any path) under torchrun on one node."""
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    # Without --no-python, it starts Python with -u, which writes a line and its end apart: lines mix.
    launch += ["--no-python", sys.executable]
    return run(sys.executable, *launch, GUIDE / script, *args, **more)  # type: ignore[arg-type]


def run_ranks(
    script: str | Path,
    *args: str,
    ranks: int = 2,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    grace: float = GRACE,
) -> Ended:
    """Run a script on some ranks without a launcher, but with the variables of torchrun."""
    environments = [each | (env or {}) for each in launched(ranks)]
    return run_each([sys.executable, GUIDE / script, *args], environments, cwd, grace)


def run_each(
    argv: list[str | Path], environments: list[dict[str, str]], cwd: Path | None = None, grace: float = GRACE
) -> Ended:
    """Run a command in each of some environments at the same time."""
    return start([(argv, environ) for environ in environments], cwd).ended(grace)


def slurm_step(
    script: str | Path, *args: str, tasks_per_node: int = 2, cwd: Path | None = None, **env: str
) -> Ended:
    """Run a script as two tasks of a Slurm step on one node, without Slurm."""
    job = {"SLURM_JOB_ID": "12", "SLURM_JOB_NAME": "train", "SLURM_NNODES": "1", "SLURM_NODEID": "0"}
    size = {"SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": str(tasks_per_node)}
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    tasks = [{"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)} for rank in range(2)]
    environments = [job | size | meeting | env | task for task in tasks]
    return run_each([sys.executable, GUIDE / script, *args], environments, cwd)


def ranks_of(out: str) -> dict[int, list[str]]:
    """Return by rank what follows `rank N` at the start of a line, in printed order."""
    lines: dict[int, list[str]] = {}
    for rank, text in re.findall(r"^rank (\d+):? *(.*)$", out, re.M):
        lines.setdefault(int(rank), []).append(text)
    return lines
