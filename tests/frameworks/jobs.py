"""Jobs of a framework on a twin with two nodes and stand-in GPUs."""

from typing import NamedTuple

from slurmgen import Request, load_site, render, resolve
from tests.guide.running import REPOSITORY
from tests.support.twins import Testbed

from .environments import PYTHON, variables

EXAMPLES = REPOSITORY / "examples" / "launchers"
SITE = "daic"


class Ended(NamedTuple):
    """A job that has ended."""

    state: str
    exit_code: str
    log: str


def request(framework: str, script: str, **more: object) -> Request:
    """Two ranks on each of two nodes."""
    asked = {"framework": framework, "gpus": 4, "nodes": 2, "account": "a", "script": script} | more
    return Request(**asked)  # type: ignore[arg-type]


def run_job(testbed: Testbed, environment: str, asked: Request) -> Ended:
    """Submit the script of a request, which uses the packages of an environment, and wait for its end."""
    asked = Request(**{**_fields(asked), "python_env": f"venv:{PYTHON[environment].parent.parent}"})
    (testbed.folder / "job.sh").write_text(render(resolve(asked, load_site(SITE))))
    more = variables(environment)
    job = testbed.run("sbatch", "--parsable", "--output=%j.log", "job.sh", **more).strip()
    state = testbed.wait(job, 400)
    record = testbed.run("scontrol", "--oneliner", "show", "job", job)
    code = record.partition(" ExitCode=")[2].split()[0]
    return Ended(state, code, (testbed.folder / f"{job}.log").read_text())


def _fields(asked: Request) -> dict[str, object]:
    return {name: value for name in asked.__struct_fields__ if (value := getattr(asked, name)) is not None}
