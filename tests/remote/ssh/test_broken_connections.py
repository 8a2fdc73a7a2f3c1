"""Connections that break and connections that go silent, between a real sshd and each client."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from paramiko.packet import Packetizer

from slurmgen.errors import AuthenticationFailed, ConnectionFailed, HostKeyError
from slurmgen.remote.ssh import openssh, paramiko
from slurmgen.remote.ssh.config import destination
from slurmgen.remote.transport import TimedOut, Transport
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import JobState
from slurmgen.status import logs
from slurmgen.status.follow import LONGEST_PAUSE, PATIENCE, follow_through
from slurmgen.status.logs import Followed, Shown
from tests.conftest import Run
from tests.remote.ssh.test_authenticate import CONNECT
from tests.support.links import Fault, Link, link
from tests.support.sshd import Server
from tests.support.twins import Testbed, eventually

JOB = JobId("12")
LOG = random.Random(1).randbytes(800_000)  # noqa: S311
AFTER_LOGIN = 8_000
"Bytes from the server after which a login is complete."


def config(through: Link, server: Server, folder: Path) -> str:
    """An ssh_config whose `far` is behind the link."""
    return replace(server, port=through.port).config(folder)


def seeded_cuts(seed: int, number: int) -> list[Fault]:
    """Cuts anywhere: in the handshake, in the login, in a reply, in the log."""
    draw = random.Random(seed)  # noqa: S311
    # Together they let fewer bytes through than the log has, so that each of them takes effect.
    return [
        Fault("cut", draw.choice([draw.randint(1, 5_000), draw.randint(5_000, 120_000)]))
        for _ in range(number)
    ]


@pytest.fixture
def completed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Slurm that reports, by a real command over the connection, that job 12 has ended."""

    def states(transport: Transport, jobs: list[JobId], *_known: object) -> dict[JobId, tuple[JobState, ...]]:
        answer = transport.run(["echo", "COMPLETED"], timeout=60)
        return {job: (JobState(id=str(job), state=answer.out.strip()),) for job in jobs}

    monkeypatch.setattr(logs, "query_states", states)


@pytest.mark.parametrize(("client", "seed"), [*(("paramiko", n) for n in range(4)), ("openssh", 4)])
def test_no_byte_of_a_log_is_lost_or_shown_twice(
    server: Server, tmp_path: Path, completed: None, client: str, seed: int
) -> None:
    (tmp_path / "log").write_bytes(LOG)
    shown, messages = bytearray(), list[str]()
    # The first connection is made before anything is followed; it breaks too, but not before it is up.
    faults = [Fault("cut", AFTER_LOGIN + seed), *seeded_cuts(seed, 5)]
    with link(server.port, *faults) as bad:
        to = destination("far", config(bad, server, tmp_path))
        states, open_now = follow_through(
            CONNECT[client](to),
            lambda: CONNECT[client](to),
            [Followed(JOB, str(tmp_path / "log"), Shown(shown.extend))],
            messages.append,
            lambda: "",
            sleep=lambda _: None,
        )
        with open_now:
            assert open_now.run(["echo", "open"], timeout=60).out == "open\n"
        assert bad.struck == len(faults)
    assert [one.state for one in states[JOB]] == ["COMPLETED"]
    assert bytes(shown) == LOG
    assert len(messages) == len(faults)
    assert all(text.endswith(" s") and "trying again in" in text for text in messages)


def test_logs_follow_goes_on_over_a_link_that_breaks(
    slurmgen: Run, login_node: Server, testbed: Testbed, tmp_path: Path
) -> None:
    text = "".join(f"line {number} {'x' * (number % 97)}\n" for number in range(3_000))
    (testbed.folder / "text").write_text(text)
    script = "#!/bin/bash\nhead -n 1500 text\nuntil [ -e go_on ]; do sleep 0.1; done\ntail -n +1501 text\n"
    (testbed.folder / "link.sh").write_text(script)
    job = testbed.run("sbatch", "--parsable", "--output=%j.log", "link.sh").strip()
    faults = [Fault("cut", at) for at in (40_000, 700, 12_000)]
    with link(login_node.port, *faults) as bad:
        route = ["--site", "generic", "--host", "far", "--ssh-config", config(bad, login_node, tmp_path)]
        (testbed.folder / "go_on").touch()
        reply = slurmgen("logs", "-f", job, *route)
        assert bad.struck == len(faults)
    assert reply.returncode == 0, reply.stderr
    assert reply.stdout == text
    assert "trying again in 1 s" in reply.stderr
    assert "is COMPLETED" in reply.stderr
    with link(login_node.port) as good:
        route[-1] = config(good, login_node, tmp_path)
        assert slurmgen("logs", "-f", job, *route, "--start", "1000").stdout == text[1000:]


class Silent:
    """A remote host that never replies."""

    where = "far"
    closed = 0

    def __init__(self, error: type[ConnectionFailed] | type[TimedOut]) -> None:
        self.error = error

    def run(self, *_: object, **__: object) -> None:
        raise self.error("nothing came")

    def close(self) -> None:
        self.closed += 1


class Clock:
    """Time that passes only during sleep."""

    now = 0.0

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def followed(transport: Silent, reopen: Callable[[], object], clock: Clock, messages: list[str]) -> None:
    follow_through(
        transport,  # type: ignore[arg-type]
        reopen,  # type: ignore[arg-type]
        [Followed(JOB, "/log", Shown(lambda _: None, 77))],
        messages.append,
        lambda: "slurmgen logs -f 12 --start 77",
        clock=lambda: clock.now,
        sleep=clock.sleep,
    )


def test_following_ends_after_ten_minutes_with_the_command_to_continue(completed: None) -> None:
    def reopen() -> None:
        raise ConnectionFailed("cannot connect to far")

    clock, messages = Clock(), list[str]()
    with pytest.raises(ConnectionFailed, match=r"has not replied for 10 minutes.*-f 12 --start 77"):
        followed(Silent(ConnectionFailed), reopen, clock, messages)
    assert PATIENCE < clock.now < PATIENCE + LONGEST_PAUSE + 1
    assert clock.pauses == sorted(clock.pauses)
    assert (clock.pauses[:3], clock.pauses[-1]) == ([1, 2, 4], LONGEST_PAUSE)
    assert messages[0] == "nothing came; trying again in 1 s"
    assert messages[1] == "cannot connect to far; trying again in 2 s"


def test_a_login_that_needs_a_prompt_is_not_repeated(completed: None) -> None:
    tries = []

    def reopen() -> None:
        tries.append(1)
        raise AuthenticationFailed("far refused the login")

    with pytest.raises(AuthenticationFailed, match=r"a new login needs you.*slurmgen logs -f 12 --start 77"):
        followed(Silent(ConnectionFailed), reopen, Clock(), [])
    assert len(tries) == 1


def test_a_host_key_that_changes_while_following_is_refused(completed: None) -> None:
    def reopen() -> None:
        raise HostKeyError("the key has changed")

    with pytest.raises(HostKeyError):
        followed(Silent(ConnectionFailed), reopen, Clock(), [])


def test_a_slow_host_is_queried_again_over_the_same_login(completed: None) -> None:
    def reopen() -> None:
        raise AssertionError("a new login")

    slow, messages = Silent(TimedOut), list[str]()
    with pytest.raises(TimedOut, match="for 10 minutes"):
        followed(slow, reopen, Clock(), messages)
    assert slow.closed == 1
    assert len(messages) > 10


@pytest.fixture(params=CONNECT)
def impatient(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A client that considers a connection broken after three seconds of silence."""
    monkeypatch.setattr(paramiko, "INTERVAL", 0.5)
    monkeypatch.setattr(paramiko, "SILENCE", 3.0)
    monkeypatch.setitem(openssh._ALWAYS, "ServerAliveInterval", "1")
    monkeypatch.setitem(openssh._ALWAYS, "ServerAliveCountMax", "3")
    return str(request.param)


STALLS = {
    "receiving": (Fault("stall", AFTER_LOGIN), "head -c 100000 /dev/zero; sleep 300", b""),
    "sending": (Fault("stall", 100_000, upwards=True), "cat > /dev/null", b"x" * 8_000_000),
    "a stream": (Fault("stall", AFTER_LOGIN), "head -c 100000 /dev/zero; sleep 300", None),
}


@pytest.mark.parametrize("stall", STALLS)
def test_a_silent_connection_is_detected(server: Server, tmp_path: Path, impatient: str, stall: str) -> None:
    fault, script, data = STALLS[stall]
    argv = ["sh", "-c", script]
    silent = r"nothing arrived from far for 3 seconds|connection to far broke"
    with (
        link(server.port, fault) as bad,
        CONNECT[impatient](destination("far", config(bad, server, tmp_path))) as transport,
        pytest.raises(ConnectionFailed, match=silent),  # not detected, it would be a TimedOut
    ):
        list(transport.stream(argv, timeout=200)) if data is None else transport.run(
            argv, input=data, timeout=200
        )


def test_an_idle_connection_receives_keepalives(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paramiko, "INTERVAL", 0.1)
    heard: list[paramiko.MonitoredSocket] = []

    class Noted(paramiko.MonitoredSocket):
        def __init__(self, sock: object) -> None:
            super().__init__(sock)
            heard.append(self)

    monkeypatch.setattr(paramiko, "MonitoredSocket", Noted)
    with paramiko.connect(destination("far", server.config(tmp_path))) as transport:
        for _ in range(3):
            before = heard[0].last
            eventually(lambda before=before: heard[0].last > before)  # type: ignore[misc]
        assert transport.run(["echo", "on"], timeout=60).out == "on\n"


def test_a_connection_that_breaks_while_a_project_is_sent_is_reported(server: Server, tmp_path: Path) -> None:
    for reach in CONNECT.values():
        with (
            link(server.port, Fault("cut", 200_000, upwards=True)) as bad,
            reach(destination("far", config(bad, server, tmp_path))) as transport,
            pytest.raises(ConnectionFailed, match="the connection to far broke"),
        ):
            transport.run(["sh", "-c", "cat > /dev/null"], input=b"x" * 8_000_000, timeout=60)


def test_commands_end_while_new_keys_are_exchanged(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Packetizer, "REKEY_BYTES", 4_000_000)
    with paramiko.connect(destination("far", server.config(tmp_path))) as transport:
        for _ in range(40):
            stream = transport.stream(["sh", "-c", "head -c 4000000 /dev/zero >&2; echo out"], timeout=60)
            assert b"".join(stream) == b"out\n"
