"""`slurmgen top`, `shell`, `port` and `run` beside real jobs of a twin."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

from slurmgen.cli import submit
from slurmgen.cli.schema import schema_of
from slurmgen.ledger.ledger import Record
from tests.conftest import Run
from tests.support.sshd import Server, closed_port, sshd
from tests.support.terminals import terminal
from tests.support.twins import Testbed, eventually

Call = Callable[..., "subprocess.CompletedProcess[str]"]
SLEEPS = "import time\nprint('up', flush=True)\ntime.sleep(300)\n"


@pytest.fixture
def environ(testbed: Testbed, login_node: Server) -> dict[str, str]:
    own = {"XDG_STATE_HOME": testbed.environ["XDG_STATE_HOME"], "HOME": str(login_node.home)}
    return {**os.environ, **own, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


@pytest.fixture(params=["ssh", "openssh", "twin"])
def job(
    request: pytest.FixtureRequest, slurmgen: Run, environ: dict[str, str], tmp_path: Path, login_node: Server
) -> Iterator[str]:
    """The id of a running job on two nodes, submitted by each route."""
    (tmp_path / "sleeps.py").write_text(SLEEPS)
    ssh = ["--host", "far", "--ssh-config", login_node.config(tmp_path)]
    route = {"twin": ["--via", "twin"], "ssh": ssh, "openssh": [*ssh, "--ssh-client", "openssh"]}
    words = ["--site", "generic", *route[request.param], "--time", "00:05:00", "--env", "COLOUR=a b"]
    words += ["--framework", "srun", "--gpus", "2", "--nodes", "2", "--script", "sleeps.py"]
    reply = slurmgen("submit", *words, env=environ)
    assert reply.returncode == 0, reply.stderr
    id_ = reply.stdout.strip()
    eventually(lambda: "up" in slurmgen("logs", id_, env=environ).stdout)
    yield id_
    slurmgen("cancel", id_, env=environ)


def test_top_of_a_job_has_a_line_for_each_gpu(slurmgen: Run, environ: dict[str, str], job: str) -> None:
    shown = slurmgen("top", job, env=environ)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[0].startswith(f"job {job} (sleeps) at generic is RUNNING for ")
    assert [line.split()[1:5] for line in lines if " GPU " in line and "%" in line][:2] == [
        ["GPU", "0", "50", "%"],
        ["GPU", "0", "50", "%"],
    ]
    assert "no idle GPU: on average 50 % of 2 GPUs" in lines
    assert "a stand-in for nvidia-smi reports them" in shown.stdout
    sample = json.loads(slurmgen("top", job, "--json", env=environ).stdout)
    jsonschema.validate(sample, schema_of("top"))
    assert (sample["stand_in"], len(sample["gpus"]), sample["problem"]) == (True, 2, "")
    assert len({gpu["node"] for gpu in sample["gpus"]}) == 2
    everything = slurmgen("top", env=environ)
    assert f"{job} " in everything.stdout
    assert "RUNNING" in everything.stdout


def test_a_command_runs_in_the_folder_and_environment_of_the_job(
    slurmgen: Run, environ: dict[str, str], job: str
) -> None:
    code = 'echo "$COLOUR|$SLURM_JOB_ID|$SLURMD_NODENAME"; ls sleeps.py; cat; exit 7'
    ran = slurmgen("shell", job, "--", "sh", "-c", code, env=environ, input="typed")
    assert ran.returncode == 7, ran.stderr
    lines = ran.stdout.splitlines()
    colour, id_, node = lines[0].split("|")
    assert (colour, id_, lines[1:]) == ("a b", job, ["sleeps.py", "typed"])
    names = json.loads(slurmgen("top", job, "--json", env=environ).stdout)["gpus"]
    other = next(gpu["node"] for gpu in names if gpu["node"] != node)
    there = slurmgen("shell", job, "--node", other, "--", "printenv", "SLURMD_NODENAME", env=environ)
    assert there.stdout == f"{other}\n"
    wrong = slurmgen("shell", job, "--node", "n9", env=environ)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert f"job {job} does not run on n9" in wrong.stderr

    # More input than the connection holds comes back while it is sent.
    much = "much " * 1_600_000
    assert slurmgen("shell", job, "--", "cat", env=environ, input=much).stdout == much

    # With a terminal: a shell that answers, sees the size of the terminal, and survives ^C.
    with terminal(["shell", job], environ) as shell:
        shell.type("echo =$((6 * 7)) $COLOUR=; stty size\n")
        shell.sees("=42 a b=")
        shell.sees("33 77")
        shell.type("sleep 200\n")
        time.sleep(0.5)
        shell.type("\x03")
        shell.type("echo still=$((5 + 4))\n")
        shell.sees("still=9")
        shell.type("exit 5\n")
        assert shell.ended() == 5


@pytest.mark.parametrize("job", ["twin"], indirect=True)
def test_a_job_that_does_not_run_has_no_shell(slurmgen: Run, environ: dict[str, str], job: str) -> None:
    slurmgen("cancel", job, env=environ)
    slurmgen("wait", job, env=environ)
    for command in ("top", "shell"):
        reply = slurmgen(command, job, env=environ)
        assert (reply.returncode, reply.stdout) == (2, "")
        assert f"job {job} is CANCELLED, not RUNNING. `slurmgen status {job}` shows why." in reply.stderr


def test_run_ends_with_the_exit_code_of_the_job_and_cancels_it_without_its_secrets_on_interrupt(
    slurmgen: Run, environ: dict[str, str], tmp_path: Path, login_node: Server
) -> None:
    (tmp_path / "fails.py").write_text("print('one')\nraise SystemExit(3)\n")
    (tmp_path / "sleeps.py").write_text(SLEEPS)
    ssh = ["--host", "far", "--ssh-config", login_node.config(tmp_path)]
    words = ["run", "--site", "generic", *ssh, "--framework", "python", "--time", "00:05:00", "--script"]
    ran = slurmgen(*words, "fails.py", env=environ)
    assert ran.returncode == 3, ran.stderr
    assert ran.stdout.startswith("one\n")
    assert "submitted job " in ran.stderr
    words = [*words, "sleeps.py", "--secret", "HARMLESS"]
    with terminal(words, environ | {"HARMLESS": "x"}, cwd=tmp_path) as running:
        running.sees("\nup")
        (secrets,) = login_node.home.glob(f"slurmgen/{tmp_path.name}/runs/sleeps-*/.slurmgen/secrets")
        running.type("\x03")
        running.sees("asked Slurm to cancel job ")
        assert running.ended() == 130
    assert not secrets.exists()
    job = slurmgen("wait", "sleeps", env=environ)
    assert (job.returncode, "is CANCELLED" in job.stdout) == (143, True)


@pytest.mark.parametrize(("key", "code"), [("\x03", 130), ("q", 0)])
def test_top_shows_a_job_that_is_submitted_meanwhile(
    key: str, code: int, slurmgen: Run, environ: dict[str, str], tmp_path: Path, login_node: Server
) -> None:
    environ = {**environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    ssh = ["--host", "far", "--ssh-config", login_node.config(tmp_path)]
    with terminal(["top", "--interval", "2"], environ, cwd=tmp_path) as top:
        top.sees("no job is active")
        words = ["--site", "generic", *ssh, "--time", "00:05:00", "--gpus", "0", "--name", "later"]
        reply = slurmgen("submit", *words, "--command", "sleep 200", env=environ)
        assert reply.returncode == 0, reply.stderr
        top.sees(reply.stdout.strip())
        slurmgen("cancel", "later", env=environ)
        top.type(key)
        assert top.ended() == code


def test_top_does_not_list_an_array_that_has_ended(
    slurmgen: Run, environ: dict[str, str], tmp_path: Path, testbed: Testbed
) -> None:
    """Without accounting, the ledger does not know that it has."""
    environ = {**environ, **testbed.twin.environ(), "XDG_STATE_HOME": str(tmp_path / "state")}
    words = [
        "--site",
        "generic",
        "--via",
        "local",
        "--time",
        "00:05:00",
        "--gpus",
        "0",
        "--sbatch",
        "array=1-2",
    ]
    array = slurmgen("submit", *words, "--command", "true", env=environ).stdout.strip()
    testbed.wait(array)
    assert "COMPLETED" in slurmgen("status", array, env=environ).stdout
    assert json.loads(slurmgen("top", "--json", env=environ).stdout) == {"jobs": []}


@pytest.mark.parametrize("again", [False, True])
def test_an_interrupt_before_the_log_is_shown_cancels_the_job_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], again: bool
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    asked: list[Any] = []
    cancel_jobs = interrupt if again else lambda _transport, jobs, _notify: asked.extend(jobs)
    for name, stand_in in {"find_log": interrupt, "cancel_jobs": cancel_jobs}.items():
        monkeypatch.setattr(submit, name, stand_in)
    monkeypatch.setattr(submit, "say_result", lambda *_: None)
    record: Any = Record(
        id="7", name="a", site="generic", via="twin", folder="/f", output="o", submitted="", key="k"
    )
    outcome: Any = SimpleNamespace(transport=None, record=record, submitted=SimpleNamespace(job=None))
    prepared: Any = SimpleNamespace(route=SimpleNamespace(site="generic"))
    assert submit._followed(prepared, outcome) == 130
    assert [job.id.number for job in asked] == ([] if again else ["7"])
    assert ("job 7 may not be cancelled: a second ^C" in capsys.readouterr().err) == again


SERVES = (
    "import http.server, sys\n"
    "class Page(http.server.BaseHTTPRequestHandler):\n"
    "    def do_GET(self):\n"
    "        self.send_response(200); self.end_headers(); self.wfile.write(b'page ' * 20000)\n"
    "server = http.server.ThreadingHTTPServer((sys.argv[1], 0), Page)\n"
    "print('port', server.server_port, flush=True)\n"
    "server.serve_forever()\n"
)


def test_a_local_port_leads_to_the_job_and_is_gone_after_interrupt(
    slurmgen: Run, environ: dict[str, str], tmp_path: Path
) -> None:
    forwards(slurmgen, environ, tmp_path, ["--via", "twin"])


@pytest.mark.parametrize("client", ["paramiko", "openssh"])
def test_a_local_port_leads_to_the_job_over_a_jump_host(
    slurmgen: Run,
    environ: dict[str, str],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    login_node: Server,
    client: str,
) -> None:
    with sshd(tmp_path_factory.mktemp("gate"), more=f"PermitOpen 127.0.0.1:{login_node.port}") as gate:
        known, config = tmp_path / "known_hosts", tmp_path / "ssh_config"
        known.write_text(login_node.known_line + gate.known_line)
        far = login_node.block("far", known, more="ProxyJump gate")
        config.write_text(gate.block("gate", known) + far)
        ssh = ["--host", "far", "--ssh-config", str(config), "--ssh-client", client]
        forwards(slurmgen, environ, tmp_path, ssh)


def forwards(slurmgen: Run, environ: dict[str, str], tmp_path: Path, route: list[str]) -> None:
    """Submit a job that serves a page, forward its port, and end that."""
    (tmp_path / "serves.py").write_text(SERVES)
    words = ["--site", "generic", *route, "--framework", "python", "--time", "00:05:00"]
    submitted = slurmgen("submit", *words, "--script", "serves.py", "--", "127.0.0.1", env=environ)
    assert submitted.returncode == 0, submitted.stderr
    job = submitted.stdout.strip()
    try:
        log = eventually(lambda: "port " in (text := slurmgen("logs", job, env=environ).stdout) and text)
        port = int(log.split()[1])
        free = closed_port()
        with terminal(["port", job, f"{free}:{port}"], environ) as forwarding:
            forwarding.sees("forwards to port")
            for _ in range(2):
                with urllib.request.urlopen(f"http://127.0.0.1:{free}/", timeout=30) as page:
                    assert page.read() == b"page " * 20000
            forwarding.type("\x03")
            assert forwarding.ended() == 130
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", free), 5)
    finally:
        slurmgen("cancel", job, env=environ)


@pytest.mark.parametrize("job", ["twin", "ssh"], indirect=True)
def test_a_program_that_the_login_node_does_not_reach_is_reached_by_a_step(
    slurmgen: Run, environ: dict[str, str], job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slurmgen.live import session
    from slurmgen.live.session import node_of, running
    from slurmgen.remote.route import open_route
    from slurmgen.status.lookup import find_job

    for name in ("XDG_STATE_HOME", "HOME"):
        monkeypatch.setenv(name, environ[name])
    monkeypatch.setattr(session, "_address", lambda *_: "no-such-host.invalid")
    messages: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = find_job(job, None, {}, lambda _: pytest.fail("the job is recorded"))
        with open_route(found.route) as transport:
            allocation = running(transport, found.id)
            node, port = node_of(transport, allocation, None), server.getsockname()[1]
            stream = session.find_dial(transport, allocation, node, port, messages.append)()
            connection, _ = server.accept()
            stream.write(b"ping\x00\xff")
            assert connection.recv(100) == b"ping\x00\xff"
            connection.sendall(b"pong\n\x00")
            received = b""
            while len(received) < 6:
                received += stream.read()
            assert received == b"pong\n\x00"
            connection.close()
            assert stream.read() == b""
            stream.close()
    assert "does not reach port" in messages[0]
