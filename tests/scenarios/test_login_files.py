"""Whatever the login files of a host print or do, each command tells the truth about its job."""

import json
import os
import sys
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.support.sshd import Server, privilege_separation_folder, sshd
from tests.support.twins import Testbed, eventually

TITLE = r"printf '\033]0;login node\007'"
NOISES = {
    "a title without a line feed": TITLE,
    "a banner on both streams": "echo 'Last backup: today'; echo '8|RUNNING' >&2; printf 'no end' >&2",
    "two megabytes of noise": "head -c 1000000 /dev/urandom; head -c 1000000 /dev/urandom >&2",
    "options, traps and noise at the end": (
        "set -eux; IFS=:; trap 'printf DEBUG' DEBUG; trap 'echo over; echo over >&2' EXIT; cd /"
    ),
    "aliases and functions": (
        "shopt -s expand_aliases; alias exec='echo alias' printf=false echo=false cd=false; "
        "exec() { builtin echo function; }; printf() { :; }; read() { :; }; cd() { builtin echo cd; }"
    ),
    "input that is read": f'read -r answer; {TITLE}; [ -z "$answer" ] || touch ~/eaten',
    "errors of a file that ends with one": "sleep 0.2; nothing_like_it; false",
    "a process that keeps the streams": "sleep 100 & sleep 100 <&0 &",
}
"What ~/.bashrc and ~/.bash_profile do; sshd's bash reads the first one, and each command's bash the other."
FATAL = {
    "exit 3": "exit status 3",
    "exec >/dev/null": "its login files",
    "exec cat": "its login files",
    "yes": "print more than 16 MB",
}
PROGRAM = "import time; print('first', flush=True); time.sleep(1000)\n"


class User:
    """A user whose project is submitted to the host."""

    def __init__(self, server: Server, folder: Path, slurmgen: Run, client: str) -> None:
        self.home, self.folder, self._slurmgen = server.home, folder, slurmgen
        (folder / "train.py").write_text(PROGRAM)
        self.route = ["--site", "generic", "--host", "far", "--ssh-config", server.config(folder)]
        self.route += ["--ssh-client", client]
        self.has(":")

    def has(self, line: str) -> None:
        """Replace what the login files do."""
        path = f'export PATH="{Path(sys.executable).parent}:$PATH"\n'
        (self.home / ".bashrc").write_text(f"{line}\n")
        (self.home / ".bash_profile").write_text(f"{path}{line}\n")

    def run(self, *args: str, typed: str | None = None) -> tuple[int, str, str]:
        reply = self._slurmgen(*args, cwd=self.folder, env=dict(os.environ), input=typed)
        return reply.returncode, reply.stdout, reply.stderr

    def said(self, *args: str) -> str:
        """The output of a command that succeeds."""
        code, out, err = self.run(*args)
        assert code == 0, out + err
        return out


@pytest.fixture(scope="module")
def host(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    privilege_separation_folder()
    # sshd's bash reads ~/.bashrc only if it is Debian's, and of the user in the password file.
    command = 'ForceCommand cd "$HOME"; . ./.bashrc; eval "$SSH_ORIGINAL_COMMAND"'
    with sshd(tmp_path_factory.mktemp("host"), testbed.twin.environ(), command) as running:
        yield running


@pytest.fixture
def user(client: str, host: Server, tmp_path: Path, slurmgen: Run) -> User:
    return User(host, tmp_path, slurmgen, client)


JOB = ("--framework", "python", "--script", "train.py")
CLIENTS = cycle(["paramiko", "openssh"])


@pytest.mark.parametrize(("noise", "client"), list(zip(NOISES, CLIENTS, strict=False)))
def test_noise_changes_no_answer(user: User, testbed: Testbed, noise: str) -> None:
    user.has(NOISES[noise])
    job = user.said("submit", *user.route, *JOB).strip()
    assert job.isdigit()
    eventually(lambda: testbed.tried("squeue", "-h", "-o", "%T", "-j", job).strip() == "RUNNING")
    eventually(lambda: user.said("logs", job) == "first\n")
    assert json.loads(user.said("logs", job, "--json")).items() >= {"size": 6, "text": True}.items()
    assert "RUNNING" in user.said("status", job)
    assert "RUNNING" in user.said("top", job, "--json")
    echo = ["shell", job, "--", "sh", "-c", "cat; echo no >&2; exit 7"]
    code, out, err = user.run(*echo, typed="typed\n")
    written = [line for line in err.splitlines() if not line.startswith("srun: ")]
    assert (code, out, written) == (7, "typed\n", ["no"])
    later = user.said("submit", *user.route, *JOB, "--name", "later", "--after", job).strip()
    assert "PENDING" in user.said("status", later)
    assert "failed" not in user.said("doctor", *user.route, *JOB)
    user.said("cancel", later, job)
    assert json.loads(user.run("wait", job, "--json")[1])["state"] == "CANCELLED"
    assert user.said("fetch", job).strip()
    assert not list(user.home.rglob("eaten"))


@pytest.mark.parametrize(("line", "client"), list(zip(FATAL, CLIENTS, strict=False)))
def test_login_files_that_let_nothing_begin_are_named(user: User, line: str) -> None:
    user.has(line)
    for command in (["submit", *user.route, *JOB], ["doctor", *user.route, *JOB]):
        code, out, err = user.run(*command)
        assert code == 3, out + err
        assert FATAL[line] in out + err
        assert "~/.bashrc" in out + err
        assert "not known" not in out + err
    user.has(":")
    assert "unsettled" not in user.said("status", "--json")
