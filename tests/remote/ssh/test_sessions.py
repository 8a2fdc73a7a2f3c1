"""Hosts that allow one session on a connection, with both clients."""

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from slurmgen.errors import AuthenticationFailed, ConnectionFailed
from slurmgen.remote.route import Route, open_route
from slurmgen.remote.ssh.config import destination
from tests.remote.ssh.test_authenticate import CONNECT
from tests.remote.ssh.test_broken_connections import config
from tests.support.links import Fault, link
from tests.support.sshd import Server, keygen, privilege_separation_folder, sshd


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that allows one session on a connection."""
    privilege_separation_folder()
    with sshd(tmp_path_factory.mktemp("narrow"), more="MaxSessions 1") as server:
        yield server


@pytest.mark.parametrize("client", CONNECT)
def test_commands_beside_a_stream_work_where_a_connection_has_one_session(
    narrow: Server, tmp_path: Path, client: str
) -> None:
    to = destination("far", narrow.config(tmp_path))
    with CONNECT[client](to) as one, ThreadPoolExecutor(3) as pool:
        for number in range(5):
            assert one.run(["echo", str(number)], timeout=60).out == f"{number}\n"
        stream = one.stream(["sh", "-c", "echo one; exec sleep 100"], timeout=60)
        assert next(stream) == b"one\n"
        asked = pool.map(lambda word: one.run(["cat"], input=word, timeout=60).stdout, [b"a", b"b", b"c"])
        assert list(asked) == [b"a", b"b", b"c"]
        stream.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("client", CONNECT)
def test_an_attached_command_reads_and_writes_beside_a_stream_as_it_goes(
    narrow: Server, tmp_path: Path, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.ExitStack() as ends:
        ends.callback((narrow.home / ".bash_profile").unlink)
        (narrow.home / ".bash_profile").write_text("echo banner; echo banner >&2; read -r eaten\n")
        here = {}
        for name in ("stdin", "stdout", "stderr"):
            here[name], other = map(ends.enter_context, socket.socketpair())
            stream = ends.enter_context(other.makefile("rwb"))
            monkeypatch.setattr(sys, name, SimpleNamespace(buffer=stream, fileno=other.fileno))
        to = destination("far", narrow.config(tmp_path))
        with CONNECT[client](to) as one, ThreadPoolExecutor(1) as pool:
            beside = one.stream(["sh", "-c", "echo one; exec sleep 100"], timeout=60)
            assert next(beside) == b"one\n"
            script = "read a; echo $a; read b; echo $b >&2; exit 7"
            ended = pool.submit(one.attach, [*one.shell, script], terminal=False)
            for name, word in (("stdout", b"first\n"), ("stderr", b"second\n")):
                here["stdin"].sendall(word)
                assert here[name].recv(100) == word
            assert ended.result() == 7
            beside.close()  # type: ignore[attr-defined]
        monkeypatch.undo()


@pytest.mark.parametrize("client", CONNECT)
def test_a_login_that_is_cut_anywhere_is_a_broken_connection(
    server: Server, tmp_path: Path, client: str
) -> None:
    # An sshd of Debian 12 sends from 1,900 bytes to paramiko, to 3,300 to ssh, until a key is accepted.
    for at in range(1, 3300, 200 if client == "openssh" else 50):
        with link(server.port, Fault("cut", at)) as bad:
            to = destination("far", config(bad, server, tmp_path))
            try:
                CONNECT[client](to).close()
            except ConnectionFailed:
                pass
            else:
                assert at > 1500, "it was to break"


@pytest.mark.parametrize("client", CONNECT)
def test_a_refused_key_is_reported_as_refused(server: Server, tmp_path: Path, client: str) -> None:
    keys = "\n".join(f'IdentityFile "{keygen(tmp_path / f"key{n}")}"' for n in range(6))
    for more in ("", keys):
        wrong = server.config(tmp_path, key=keygen(tmp_path / f"wrong{len(more)}"), more=more)
        with pytest.raises(AuthenticationFailed):
            CONNECT[client](destination("far", wrong))


def test_a_shared_connection_is_used_whatever_the_recorded_client(server: Server, tmp_path: Path) -> None:
    given = server.config(tmp_path, more=f"ControlPath {tmp_path}/c")
    subprocess.run(["ssh", "-F", given, "-M", "-N", "-f", "far"], check=True, stderr=subprocess.DEVNULL)
    try:
        Path(given).write_text(Path(given).read_text().replace(str(server.key), str(tmp_path / "no key")))
        with open_route(Route(site="generic", via="ssh", host="far", ssh_config=given)) as one:
            assert one.login == "the connection that you share"
            assert one.run(["echo", "in"], timeout=60).out == "in\n"
    finally:
        subprocess.run(["ssh", "-F", given, "-O", "exit", "far"], check=False, capture_output=True)
