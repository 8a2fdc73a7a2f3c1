"""Real twins of real sites, reached through a real sshd with the command line of a user."""

import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import pytest

from slurmgen.sites.discover.profile import Discovery, discover
from slurmgen.sites.discover.query import QUERY, answers
from tests.support import command_server
from tests.support.fork_server import environment, warm
from tests.support.twins import Testbed, slurm, twin

BIN = environment() / "bin"
ON_SITE = {
    # The tutorial's `uv sync` would fetch gigabytes; here the environment of this checkout serves.
    "daic": ["--account", "ewi-insy-prb", "--python-env", f"venv:{BIN.parent}"],
    # There is no image here: the stand-in for apptainer runs what it finds on PATH.
    "olivia": ["--account", "nn1234k", "--env", f"PATH={slurm().path(f'{BIN}:/usr/bin:/bin')}"],
}
"What a request needs on a twin, beyond what it needs on the site itself."


@dataclass(frozen=True)
class Job:
    """A job that has ended."""

    id: str
    state: str
    exit_code: str
    nodes: list[str]
    log: str


class Site:
    """A twin as its users see it: through `slurmgen` and an ssh_config."""

    def __init__(self, name: str, testbed: Testbed) -> None:
        self.name = name
        self.testbed = testbed
        self.project = testbed.folder / "project"
        self.project.mkdir()

    def slurmgen(self, *args: str, **more: str) -> "subprocess.CompletedProcess[str]":
        environ = self.testbed.environ | {"SLURMGEN_SSH_CONFIG": str(self.testbed.twin.ssh_config)} | more
        return command_server.run(args, self.project, environ)

    @cached_property
    def queried(self) -> Discovery:
        """What discovery finds on the twin."""
        query = subprocess.run(
            ["sh", "-c", QUERY], env=self.testbed.environ, capture_output=True, check=True, timeout=300
        )
        return discover(answers(query.stdout))

    def submit(self, *args: str) -> str:
        """Submit over SSH; the id of the job."""
        options, _, training = " ".join(map(shlex.quote, args)).partition(" -- ")
        words = [*shlex.split(options), "--remote-dir", str(self.testbed.folder / "remote")]
        result = self.slurmgen("submit", *words, *ON_SITE[self.name], "--", *shlex.split(training))
        assert result.returncode == 0, result.stderr
        assert re.fullmatch(r"\d+\n", result.stdout)
        return result.stdout.strip()

    def ended(self, job: str, seconds: float = 480.0) -> Job:
        """Wait for the end of a job, then read what Slurm and the log say of it."""
        state = self.testbed.wait(job, seconds)
        record = self.testbed.run("scontrol", "--oneliner", "show", "job", job)
        said = dict(re.findall(r"(\w+)=(\S*)", record))
        nodes = self.testbed.run("scontrol", "show", "hostnames", said["NodeList"]).split()
        shown = self.slurmgen("logs", job)
        return Job(job, state, said["ExitCode"], nodes, shown.stdout + shown.stderr)


@pytest.fixture(scope="session")
def site() -> Iterator[Callable[[str], Site]]:
    """The twin of a site, started when a test first asks for it."""
    running: dict[str, tuple[object, Site]] = {}

    def start(name: str) -> Site:
        if name not in running:
            warm()
            context = twin(name, nodes=2, ssh=name in ON_SITE)
            running[name] = (context, Site(name, context.__enter__()))
        return running[name][1]

    yield start
    for context, _ in running.values():
        context.__exit__(None, None, None)  # type: ignore[attr-defined]
