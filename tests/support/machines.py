"""A plain sshd, and a login node of a twin whose profile is as unruly as real ones are."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmgen.remote.local import LocalTransport
from slurmgen.remote.ssh import openssh
from slurmgen.remote.ssh.config import destination
from slurmgen.remote.ssh.paramiko import connect
from slurmgen.remote.transport import Transport
from tests.support.sshd import Server, privilege_separation_folder, sshd
from tests.support.twins import Testbed, twin

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
