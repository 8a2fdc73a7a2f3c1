"""The lines of `before_login`: once on the login node for each content, before the job is submitted."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from slurmgen.remote.transport import Transport
from slurmgen.submit.exactly_once import LoginFailed
from tests.scenarios.test_hostile_replies import WAY, Machine, machine
from tests.submit.test_exactly_once import SHORT, submission, submit
from tests.support.sshd import Server
from tests.support.twins import eventually

__all__ = ["machine"]

RUN = "sh ./download.sh train.py"
WAITS = "until [ -e ~/go ]; do sleep 0.1; done"


class Login:
    """A machine on which sbatch records the jobs, and a project whose download records its runs."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.home = machine, machine.home
        machine.answers("sbatch", "echo $$ | tee -a ~/jobs")
        (machine.project / "download.sh").write_text("echo $PWD $DATA >>~/ran; echo >made\n")
        self.lines(RUN)

    def lines(self, *lines: str) -> None:
        job = f'framework = "python"\nscript = "train.py"\nbefore_login = {json.dumps(lines)}\n'
        (self.machine.project / "slurmgen.toml").write_text(f'[job.train]\n{job}env.DATA = "~/d"\n')

    def submit(self, *args: str) -> tuple[int, str, str]:
        return self.machine.slurmgen("submit", "train", *WAY, *args)

    def started(self) -> "subprocess.Popen[str]":
        argv = [sys.executable, "-m", "slurmgen", "submit", "train", *WAY, "--again"]
        folder, environ, pipe = self.machine.project, self.machine.environ, subprocess.PIPE
        return subprocess.Popen(argv, cwd=folder, env=environ, stdout=pipe, stderr=pipe, text=True)

    def count(self, name: str) -> int:
        path = self.home / name
        return len(path.read_text().splitlines()) if path.exists() else 0

    @property
    def submissions(self) -> int:
        return len(list(self.home.glob("slurmgen/project/submissions/*")))


@pytest.fixture
def login(machine: Machine) -> Iterator[Login]:
    found = Login(machine)
    yield found
    (found.home / "go").touch()


def test_the_lines_run_once_for_two_submissions(login: Login) -> None:
    assert [login.submit()[0] for _ in range(2)] == [0, 0]
    assert (login.count("ran"), login.count("jobs")) == (1, 2)


def test_the_lines_run_in_a_copy_of_the_project_with_the_variables_of_the_request(login: Login) -> None:
    login.submit()
    folder, data = (login.home / "ran").read_text().split()
    assert data == f"{login.home}/d"
    assert Path(folder).parent == login.home / "slurmgen/project/staging"
    assert not list(login.home.glob("slurmgen/project/runs/*/made"))


@pytest.mark.parametrize(
    ("name", "runs"),
    [("download.sh", 2), ("train.py", 2), ("other.py", 1)],
    ids=["file", "argument", "other"],
)
def test_the_lines_run_again_if_a_file_that_they_name_has_changed(login: Login, name: str, runs: int) -> None:
    login.submit()
    path = login.machine.project / name
    path.write_text(f"{path.read_text() if path.exists() else ''}# more\n")
    login.submit()
    assert login.count("ran") == runs


def test_changed_lines_run_again(login: Login) -> None:
    login.submit()
    login.lines(RUN, "true")
    login.submit()
    assert login.count("ran") == 2


def test_lines_that_fail_submit_nothing_and_run_again(login: Login) -> None:
    login.lines(RUN, "echo no such data; (exit 7)", "echo not reached")
    (first, out, err), (second, *_) = login.submit(), login.submit()
    assert (first, second, out) == (3, 3, "")
    assert re.search(r"error: before_login ended with exit status 7 on \S+\. There is no job\.", err)
    assert err.endswith(".log:\n  no such data\n")
    assert (login.count("ran"), login.count("jobs")) == (2, 0)


def test_a_dry_run_shows_the_lines_and_runs_none(login: Login) -> None:
    code, out, err = login.submit("--dry-run")
    assert (code, login.count("ran")) == (0, 0)
    assert f"\n#     {RUN}\n" in out
    assert "would first run on the login node, unless the same lines have run there before:\n  set -e" in err
    assert f'\n  export DATA="$HOME"/d\n  {RUN}\n' in err


def test_two_submissions_at_once_run_the_lines_once(login: Login) -> None:
    login.lines(RUN, WAITS)
    first = login.started()
    eventually(lambda: login.count("ran"))
    second = login.started()
    eventually(lambda: login.submissions == 2)
    (login.home / "go").touch()
    jobs = [one.communicate(timeout=120)[0] for one in (first, second)]
    assert sorted(jobs) == sorted((login.home / "jobs").read_text().splitlines(keepends=True))
    assert login.count("ran") == 1


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_a_submission_that_ends_while_the_lines_run_is_repeated_with_one_run_and_one_job(
    login: Login, kind: signal.Signals
) -> None:
    login.lines(RUN, WAITS)
    first = login.started()
    eventually(lambda: login.count("ran"))
    first.send_signal(kind)
    first.communicate(timeout=120)
    (login.home / "go").touch()
    assert login.submit()[:2] == (0, (login.home / "jobs").read_text())
    assert (login.count("ran"), login.count("jobs"), login.submissions) == (1, 1, 1)


def test_a_lost_connection_submits_no_job_after_the_lines(login: Login) -> None:
    login.lines(RUN, WAITS)
    first = login.started()
    eventually(lambda: login.count("ran"))
    first.kill()
    first.communicate(timeout=120)
    (login.home / "go").touch()
    eventually(lambda: not list(login.home.glob("slurmgen/project/staging/train-*")))
    assert login.count("jobs") == 0


def connections(port: int) -> list[str]:
    """The connections that a server at a port has not closed: established, or closed by the client only."""
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()]
    return [row[2] for row in rows if row[1].endswith(f":{port:04X}") and row[3] in ("01", "08")]


@pytest.mark.parametrize("client", ["paramiko", "openssh"])
def test_a_client_that_is_killed_over_ssh_leaves_one_run_and_no_job(
    client: str, login_node: Server, tmp_path: Path
) -> None:
    project, home = tmp_path / f"killed-{client}", login_node.home
    ran, go, parent = home / f"ran-{client}", home / f"go-{client}", home / "slurmgen" / project.name
    project.mkdir()
    (project / "a.py").touch()
    lines = json.dumps([f"echo >>{ran}; until [ -e {go} ]; do sleep 0.1; done"])
    job = f'[job.a]\nframework = "python"\nscript = "a.py"\nbefore_login = {lines}\n'
    (project / "slurmgen.toml").write_text(job)
    route = ("--host", "far", "--ssh-config", str(login_node.config(tmp_path)), "--ssh-client", client)
    argv = [sys.executable, "-m", "slurmgen", "submit", "a", "--site", "generic", *route]
    with subprocess.Popen(argv, cwd=project, stderr=subprocess.PIPE) as first:
        eventually(lambda: ran.exists() or first.poll() is not None)
        first.kill()
    eventually(lambda: not connections(login_node.port))
    go.touch()
    eventually(lambda: not list(parent.glob("staging/a-*")))
    assert not list(parent.glob("submissions/*/job"))
    subprocess.run(argv, cwd=project, check=True, capture_output=True)
    assert (len(ran.read_text().splitlines()), len(list(parent.glob("submissions/*/job")))) == (1, 1)


def test_the_lines_run_once_by_each_transport(cluster: Transport, tmp_path: Path, login_node: Server) -> None:
    project = tmp_path / f"login-{os.getpid()}-{id(cluster)}"
    text = f'cat "data file"\necho "${{SBATCH_PARTITION:-clean}}" >>~/{project.name}\n'
    first, second = (
        submit(cluster, structs.replace(submission(project, "true\n"), login_script=text, login_hash="a1"))
        for _ in range(2)
    )
    assert first.job != second.job
    assert (login_node.home / project.name).read_text() == "clean\n"
    assert (Path(first.folder).parent.parent / "before_login/a1.log").read_text() == "42\n"


def test_a_failure_is_reported_by_each_transport(cluster: Transport, tmp_path: Path) -> None:
    asked = structs.replace(
        submission(tmp_path / "fails", "true\n"), login_script="echo no; exit 3", login_hash="b"
    )
    with pytest.raises(LoginFailed, match=r"exit status 3 on \S+\. There is no job\..*:\nno$"):
        submit(cluster, asked)


@pytest.mark.parametrize("cluster", ["local"], indirect=True)
def test_lines_that_take_too_long_are_ended(cluster: Transport, tmp_path: Path) -> None:
    asked = structs.replace(submission(tmp_path / "slow", "true\n"), login_script="sleep 600", login_hash="c")
    with pytest.raises(LoginFailed, match="did not end within 1 seconds"):
        submit(cluster, asked, structs.replace(SHORT, login=1))
