"""The user's login shell on the cluster parses each command first, and need not be a POSIX shell."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.support.sshd import Server, privilege_separation_folder, sshd
from tests.support.twins import Testbed

SHELLS = ["fish", "tcsh", "zsh"]
SCRIPT = "it's !! $HOME; `a`.py"
HOSTILE = ["!!", "a'b", "-x", "\\\\", "\\'$(touch pwned)\"\\'", "a\\"]
TRAIN = "import sys; print(sys.argv[1:]); open('made !1', 'w').write('made')\n"


@pytest.fixture(scope="module", params=SHELLS)
def login_node(
    request: pytest.FixtureRequest, testbed: Testbed, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    privilege_separation_folder()
    shell = f'ForceCommand cd "$HOME" && exec {request.param} -c "$SSH_ORIGINAL_COMMAND"'
    with sshd(tmp_path_factory.mktemp("login"), testbed.twin.environ(), shell) as running:
        (running.home / ".bash_profile").write_text(f'export PATH="{Path(sys.executable).parent}:$PATH"\n')
        yield running


@pytest.mark.parametrize("client", ["paramiko", "openssh"])
def test_every_command_works_whatever_the_login_shell(
    login_node: Server, tmp_path: Path, slurmgen: Run, client: str
) -> None:
    project = tmp_path / "it's !p"
    project.mkdir()
    (project / SCRIPT).write_text(TRAIN)
    way = ["--site", "generic", "--host", "far", "--ssh-config", login_node.config(tmp_path)]
    way += ["--ssh-client", client]
    there = ["--remote-dir", "it's !!"]

    def run(*args: str) -> str:
        reply = slurmgen(*args, cwd=project, env=dict(os.environ))
        assert reply.returncode == 0, reply.stdout + reply.stderr
        return reply.stdout

    asked = ["--framework", "python", "--script", SCRIPT, "--name", "odd", "--", *HOSTILE]
    job = run("submit", *way, *there, *asked).strip()
    assert json.loads(run("wait", job, "--json"))["state"] == "COMPLETED"
    assert str(HOSTILE) in run("logs", job)
    assert not list(login_node.home.rglob("pwned"))
    assert "COMPLETED" in run("status", job)
    run("cancel", job)
    assert (project / run("fetch", job).strip() / "made !1").read_text() == "made"
    kept = json.loads(run("snapshots", *way, *there, "--json"))["kept"]
    assert {one["state"] for one in kept if one["kind"] == "run"} == {"free"}
    assert "failed" not in run("doctor", *way, *there, *asked)
