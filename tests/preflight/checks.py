"""Runs of the program that checks nodes, with one process per node on this machine."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from slurmgen.files import PREFLIGHT, bundled
from tests.support.ports import free_port

PROGRAM = str(bundled(PREFLIGHT))
HERE = Path(__file__).parent
JOB = "7"
PYTHON = (sys.executable, "-S")  # without the packages of this environment: PyTorch takes seconds to load


class Checked(NamedTuple):
    """The result of a run."""

    status: int
    output: str
    seconds: float
    report: dict[str, Any]

    @property
    def findings(self) -> dict[str, dict[str, str]]:
        """The texts of the findings by node and check; only nodes with some."""
        return {
            node["node"]: {one["check"]: one["text"] for one in node["findings"]}
            for node in self.report["nodes"]
            if node["healthy"] is False
        }


def addresses(count: int) -> list[str]:
    """Addresses of this machine that stand for nodes, as in a twin."""
    return [f"127.0.0.{number + 1}" for number in range(count)]


def fault(name: str) -> list[str]:
    """A node's command with a fault of faulty.py."""
    return [*PYTHON, str(HERE / "faulty.py"), name, PROGRAM, "node"]


def check(
    folder: Path,
    count: int = 8,
    special: Mapping[int, Sequence[str]] | None = None,
    *,
    names: Sequence[str] | None = None,
    before: Mapping[int, Sequence[str]] | None = None,
    options: Sequence[str] = (),
    python: Sequence[str] = PYTHON,
    job: Sequence[str] = (),
    port: int | None = None,
    **env: str,
) -> Checked:
    """Check nodes.

    Args:
        folder: the folder of the job.
        count: the number of nodes.
        special: the whole command of some nodes.
        names: the names of the nodes.
        before: the words before the command of some nodes, and of the job's part at 0.
        options: options of the job's part.
        python: the words that start Python.
        job: the words before the job's part, instead of `python`.
        port: the port where ranks would meet; default: a free one.
        env: further variables.
    """
    named, before = names or addresses(count), before or {}
    usual = [*python, PROGRAM, "node"]
    commands = [[*before.get(node, ()), *(special or {}).get(node, usual)] for node in range(count)]
    (folder / "commands.json").write_text(json.dumps(commands))
    environ = {
        "SLURM_JOB_ID": JOB,
        "SLURM_JOB_NODELIST": ",".join(named),
    }
    start = [sys.executable, str(HERE / "start.py"), str(folder / "commands.json")]
    words = [
        *(job or (*python, PROGRAM)),
        "job",
        f"--rendezvous={named[0]}:{port or free_port()}",
        *options,
        "--",
        *start,
    ]
    began = time.monotonic()
    reply = subprocess.run(
        [*before.get(0, ()), *words],
        cwd=folder,
        env={**os.environ, **environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    seconds = time.monotonic() - began
    file = folder / f".preflight-{JOB}.json"
    report = json.loads(file.read_text()) if file.exists() else {}
    return Checked(reply.returncode, reply.stdout, seconds, report)
