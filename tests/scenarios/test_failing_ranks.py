"""Real jobs of torchrun, `accelerate launch` and srun, of which one rank fails: is it named, with the reason?

tests/status/test_failure.py has what needs a GPU or a container, with texts modelled on what programs print.
"""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.conftest import BIN, Site

SCRIPT = Path(__file__).with_name("failing_ranks.py")
RANK = 1
KILLED = "ended with SIGKILL, which usually means that memory ran out"
CRASHED = "ended with SIGSEGV: a program crashed"
MODULE = "Python has no module no_such_module"
ARGUMENTS = "a program rejected its arguments: “unrecognized arguments: --lrr 3”"

# The size of a job, and for each way of failing how the reason begins.
JOBS: dict[str, tuple[list[str], dict[str, str]]] = {
    # Rank 1 is on the second node; torchrun on the first one sees only that its own rank loses a connection,
    # and calls each node localhost, which is left out where the log does not show the node.
    "ddp": (
        ["--gpus", "2", "--nodes", "2"],
        {
            "exception": "Python raised an error (rank 1)",
            "SIGKILL": f"rank 1 {KILLED}",
            "SIGSEGV": f"rank 1 {CRASHED}",
            "exit-code": "rank 1 ended with exit code 3",
            "import": f"{MODULE} (rank 1)",
            "arguments": f"{ARGUMENTS} (rank 1)",
        },
    ),
    "accelerate": (
        ["--gpus", "2", "--nodes", "1"],
        {
            "exception": "Python raised an error (rank 1 on ",
            "SIGKILL": f"rank 1 on NODE {KILLED}",
            "exit-code": "rank 1 on NODE ended with exit code 3",
            "import": f"{MODULE} (rank 1 on NODE)",
        },
    ),
    "srun": (
        ["--gpus", "2", "--nodes", "2"],
        {
            "exception": "Python raised an error (rank 1 on ",
            "SIGKILL": f"task 1 on NODE {KILLED}",
            "exit-code": "task 1 on NODE ended with exit code 3",
        },
    ),
    "lightning": (
        ["--gpus", "3", "--nodes", "1"],
        {
            "lightning:exception": "Python raised an error (rank 1 on ",
            "lightning:SIGKILL": f"task 1 on NODE {KILLED}",
            "SIGKILL": f"task 1 on NODE {KILLED}",
            "SIGSEGV": f"task 1 on NODE {CRASHED}",
            "exit-code": "task 1 on NODE ended with exit code 3",
            "import": f"{MODULE} (task 1 on NODE)",
            "arguments": f"{ARGUMENTS} (task 1 on NODE)",
        },
    ),
}
CASES = [(framework, number) for framework, (_, ways) in JOBS.items() for number in range(len(ways))]


class Failing(Site):
    """The twin of a site, and a project whose jobs fail."""

    def __init__(self, site: Site) -> None:
        self.name, self.testbed = site.name, site.testbed
        self.project = site.testbed.folder / "failing"
        self.project.mkdir()
        shutil.copy(SCRIPT, self.project)

    def why(self, job: str) -> Any:
        """Why a job failed, once it has ended."""
        self.testbed.wait(job, 300)
        reply = self.slurmgen("status", job, "--json")
        assert reply.returncode == 0, reply.stderr
        return json.loads(reply.stdout)["why"]


@pytest.fixture(scope="module")
def failing(site: Callable[[str], Site]) -> Failing:
    return Failing(site("daic"))


@pytest.fixture(scope="module")
def jobs(failing: Failing) -> dict[str, str]:
    """The id of each job, all in the queue at once; the time limit first, since it is a minute at least."""
    sleeps = ["--framework", "python", "--time", "00:01:00", "--script", "sleep.py", "--name", "sleep"]
    (failing.project / "sleep.py").write_text("import time\ntime.sleep(600)\n")
    ids = {"sleep": failing.submit("--site", "daic", *sleeps)}
    for framework, (size, ways) in JOBS.items():
        array = ["--sbatch", f"array=0-{len(ways) - 1}", "--env", "GLOO_SOCKET_IFNAME=lo"]
        options = ["--site", "daic", "--framework", framework, *size, *array, "--script", SCRIPT.name]
        ids[framework] = failing.submit(*options, "--", str(RANK), *ways)
    return ids


@pytest.mark.parametrize(("framework", "number"), CASES, ids=lambda value: str(value))
def test_the_rank_that_failed_first_is_the_reason(
    failing: Failing, jobs: dict[str, str], framework: str, number: int
) -> None:
    expected = list(JOBS[framework][1].values())[number]
    what = failing.why(f"{jobs[framework]}_{number}")["what"]
    assert re.sub(r"on [\d.]+", "on NODE", what).startswith(expected)


def test_a_time_limit_is_the_reason(failing: Failing, jobs: dict[str, str]) -> None:
    assert failing.why(jobs["sleep"])["what"].startswith("it reached its time limit")


def test_a_package_that_uv_cannot_download_is_the_reason(failing: Failing) -> None:
    """A real uv, and an index on a port of this machine where nothing listens."""
    (failing.project / "pyproject.toml").write_text(
        '[project]\nname = "x"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["einops"]\n'
        "[tool.uv]\npackage = false\n"
    )
    env = {
        "PATH": f"{BIN}:/usr/bin:/bin",
        "UV_HTTP_RETRIES": "0",
        "UV_DEFAULT_INDEX": "http://127.0.0.1:9/",
        "UV_CACHE_DIR": str(failing.project / "cache"),
    }
    job = [
        "--framework",
        "python",
        "--script",
        SCRIPT.name,
        "--python-env",
        "uv",
        "--account",
        "ewi-insy-prb",
    ]
    words = ["--site", "daic", "--via", "twin", *job, "--remote-dir", str(failing.testbed.folder / "remote")]
    reply = failing.slurmgen("submit", *words, **env)
    assert reply.returncode == 0, reply.stderr
    found = failing.why(reply.stdout.strip())
    assert found["what"] == "a package could not be downloaded: http://127.0.0.1:9/einops/"
    assert "login node" in found["todo"]
