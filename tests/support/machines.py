"""A plain sshd, and a login node of a twin whose profile is as unruly as real ones are."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from slurmgen.remote.local import LocalTransport
from slurmgen.remote.ssh import openssh
from slurmgen.remote.ssh.config import destination
from slurmgen.remote.ssh.paramiko import connect
from slurmgen.remote.transport import Transport
from tests.support.sshd import Server, privilege_separation_folder, sshd
from tests.support.twins import Testbed, eventually, twin

Call = Callable[..., CompletedProcess[str]]
PROFILE = """echo 'Welcome! Quota: 12 of 100 files'
echo 4711
echo '8|RUNNING'
echo 'Last login: never' >&2
export SBATCH_PARTITION=nowhere SBATCH_JOB_NAME=hijacked SQUEUE_FORMAT=%A SLURM_TIME_FORMAT=relative
export FROM_PROFILE=yes
"""


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    privilege_separation_folder()
    with sshd(tmp_path_factory.mktemp("sshd"), {"SLURM_CONF": "/kept", "SLURM_CPU_BIND": "cores"}) as running:
        yield running


@pytest.fixture(scope="session")
def testbed() -> Iterator[Testbed]:
    with twin("generic") as running:
        yield running


@pytest.fixture(scope="session")
def login_node(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    privilege_separation_folder()
    with sshd(tmp_path_factory.mktemp("login"), testbed.twin.environ()) as running:
        programs = Path(sys.executable).parent
        (running.home / ".bash_profile").write_text(f'{PROFILE}export PATH="{programs}:$PATH"\n')
        yield running


@pytest.fixture
def call(slurmgen: Call, project: Path, testbed: Testbed, tmp_path: Path) -> Iterator[Call]:
    """Run slurmgen in the project of the test, on the twin, with a home of its own and no other jobs."""
    (tmp_path / "home").mkdir()
    more = {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": testbed.environ["XDG_STATE_HOME"]}

    def run(*words: str) -> CompletedProcess[str]:
        at = ["--site", "generic", "--via", "twin"] if words[0] == "submit" else []
        end = words.index("--") if "--" in words else len(words)
        return slurmgen(*words[:end], *at, *words[end:], cwd=project, env=os.environ | more)

    _cancel_all(testbed)  # the jobs of other tests
    yield run
    _cancel_all(testbed)


def _cancel_all(testbed: Testbed) -> None:
    testbed.run("scancel", "--me")
    eventually(lambda: not testbed.run("squeue", "--noheader").strip())


@pytest.fixture
def transport(server: Server, tmp_path: Path) -> Iterator[Transport]:
    with connect(destination("far", server.config(tmp_path))) as transport:
        yield transport


@pytest.fixture(params=["ssh", "openssh", "local"])
def either(
    request: pytest.FixtureRequest, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Transport]:
    """The same machine by each transport."""
    with _either(
        request.param, server, tmp_path, monkeypatch, {"SLURM_CONF": "/kept", "SLURM_CPU_BIND": "cores"}
    ) as one:
        yield one


@pytest.fixture(params=["ssh", "openssh", "local"])
def cluster(
    request: pytest.FixtureRequest,
    testbed: Testbed,
    login_node: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Transport]:
    """The twin by each transport."""
    with _either(request.param, login_node, tmp_path, monkeypatch, testbed.twin.environ()) as one:
        yield one


def _either(
    kind: str, server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> Transport:
    if kind != "local":
        return {"ssh": connect, "openssh": openssh.connect}[kind](destination("far", server.config(folder)))
    monkeypatch.setenv("HOME", str(server.home))
    return LocalTransport(variables)
