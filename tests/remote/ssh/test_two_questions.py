"""A password and a one-time code, typed on a real terminal: prompted for once, and not stored."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.remote.ssh.test_prompt import Screen
from tests.support.links import Fault, link
from tests.support.questions import CODE, PASSWORD, ROUNDS, Questions, questions
from tests.support.sshd import Server


class Place:
    """A remote host whose Slurm knows jobs 12 and 13, with one log, and the local folders."""

    def __init__(self, folder: Path, asking: Questions, server: Server) -> None:
        self.folder = folder
        self.asking = asking
        self.remote = Server(server.folder, asking.port)
        self.config = self.remote.config(folder)
        self.environ = {**os.environ, "HOME": str(folder)}

    def command(self, client: str, *words: str) -> list[str]:
        route = ["--site", "generic", "--host", "far", "--ssh-config", self.config, "--ssh-client", client]
        return [sys.executable, "-m", "slurmgen", *(words or ("status", "12")), *route]

    def written(self) -> str:
        """Everything in the local folders."""
        roots = [
            self.folder,
            *(Path(os.environ[f"XDG_{name}_HOME"]) for name in ("STATE", "CACHE", "CONFIG")),
        ]
        files = [path for root in roots for path in root.rglob("*") if path.is_file()]
        return "".join(path.read_text(errors="replace") for path in files)


@pytest.fixture(params=ROUNDS)
def place(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> Iterator[Place]:
    home, programs = tmp_path / "far home", tmp_path / "bin"
    home.mkdir()
    programs.mkdir()
    job = f"JobId=12 JobName=a\n   JobState=RUNNING Reason=None\n   StdOut={tmp_path}/log\n"
    queue = "".join(f"{number}|RUNNING|None|0:01|1:00|N/A|n1|||||a\n" for number in (12, 13))
    for name, screen_text in {"squeue": queue, "scontrol": job}.items():
        (programs / name).write_text(f"#!/bin/sh\nprintf %s '{screen_text}'\n")
        (programs / name).chmod(0o755)
    (home / ".bash_profile").write_text(f"PATH='{programs}':$PATH\n")
    environ = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    with questions(request.param, server.folder / "host_key", home, environ) as asking:
        yield Place(tmp_path, asking, server)


@pytest.mark.parametrize("client", ["paramiko", "openssh"])
def test_both_are_prompted_for_once_never_shown_and_not_stored(place: Place, client: str) -> None:
    with closing(Screen("foreground", *place.command(client), env=place.environ, cwd=place.folder)) as screen:
        screen.until("Password: ")
        screen.type(f"{PASSWORD}\n")
        screen.until("One-time code: ")
        screen.type(f"{CODE}\n")
        screen_text = screen.until("echo True")
    assert "job 12 (a) is RUNNING" in screen_text
    assert "ended 0, echo True" in screen_text
    assert (screen_text.count("Password: "), screen_text.count("One-time code: ")) == (1, 1)
    assert place.asking.logins == 1
    for secret in (PASSWORD, CODE):
        assert secret not in screen_text
        assert secret not in place.written()


@pytest.mark.parametrize("place", ["together"], indirect=True)
@pytest.mark.parametrize("client", ["paramiko", "openssh"])
def test_without_a_terminal_there_is_no_prompt(place: Place, client: str) -> None:
    reply = subprocess.run(
        place.command(client),
        env=place.environ,
        cwd=place.folder,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        timeout=120,
    )
    assert (reply.returncode, reply.stdout) == (3, "")
    assert reply.stderr.startswith("error: far refused the login of ")
    assert "there is no terminal here" in reply.stderr
    assert place.asking.logins == 0


@pytest.mark.parametrize("client", ["paramiko", "openssh"])
def test_wrong_answers_are_reported_and_the_terminal_echoes_again(place: Place, client: str) -> None:
    with closing(Screen("foreground", *place.command(client), env=place.environ, cwd=place.folder)) as screen:
        for number in range(3):
            screen.until_count("Password: ", number + 1)
            screen.type("wrong\n")
            if place.asking.kind == "together":
                screen.until_count("One-time code: ", number + 1)
                screen.type("000000\n")
        screen_text = screen.until("echo True")
    assert "error: far refused the login of " in screen_text
    assert "ended 3, echo True" in screen_text
    assert "000000" not in screen_text


@pytest.mark.parametrize("place", ["together"], indirect=True)
@pytest.mark.parametrize("client", ["paramiko", "openssh"])
def test_after_a_broken_connection_there_is_no_second_prompt(place: Place, client: str) -> None:
    (place.folder / "log").write_text("x" * 99 + "\n" + "y" * 400_000)
    with link(place.asking.port, Fault("cut", 200_000)) as bad:
        place.config = Server(place.remote.folder, bad.port).config(place.folder)
        command = place.command(client, "logs", "-f", "12")
        with closing(Screen("foreground", *command, env=place.environ, cwd=place.folder)) as screen:
            screen.until("Password: ")
            screen.type(f"{PASSWORD}\n")
            screen.until("One-time code: ")
            screen.type(f"{CODE}\n")
            screen_text = screen.until("echo True")
    assert "error: the connection broke, and a new login needs you: far refused the login of " in screen_text
    start = re.search(r"slurmgen logs -f 12 --site generic --start (\d+)", screen_text)
    assert start
    shown = screen_text.partition("x" * 99)[2].partition("the connection to far broke")[0]
    assert int(start[1]) == 99 + 1 + shown.count("y")
    assert "ended 3, echo True" in screen_text
    assert screen_text.count("Password: ") == 1


@pytest.mark.parametrize("place", ["together"], indirect=True)
def test_after_a_broken_connection_the_command_for_several_jobs_has_their_options(place: Place) -> None:
    (place.folder / "log").write_text("0: x\n" * 100_000)
    with link(place.asking.port, Fault("cut", 200_000)) as bad:
        place.config = Server(place.remote.folder, bad.port).config(place.folder)
        command = place.command("paramiko", "logs", "-f", "12", "13", "--rank", "0")
        with closing(Screen("foreground", *command, env=place.environ, cwd=place.folder)) as screen:
            screen.until("Password: ")
            screen.type(f"{PASSWORD}\n")
            screen.until("One-time code: ")
            screen.type(f"{CODE}\n")
            screen_text = screen.until("echo True")
    assert "slurmgen logs -f 12 13 --site generic --rank 0 --tail 1" in screen_text


@pytest.mark.parametrize("place", ["together"], indirect=True)
@pytest.mark.parametrize("client", ["paramiko", "openssh"])
def test_an_interrupted_prompt_ends_the_command_and_the_terminal_echoes_again(
    place: Place, client: str
) -> None:
    with closing(Screen("foreground", *place.command(client), env=place.environ, cwd=place.folder)) as screen:
        screen.until("Password: ")
        screen.type("\x03")
        screen_text = screen.until("echo True")
    assert "ended 130, echo True" in screen_text
    assert "Traceback" not in screen_text
