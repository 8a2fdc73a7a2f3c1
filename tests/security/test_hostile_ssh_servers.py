"""Malicious servers: an error within the time limits, and no control characters on the terminal."""

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

import paramiko
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurmgen.errors import AuthenticationFailed, ConnectionFailed, RemoteError
from slurmgen.remote.ssh import paramiko as ssh_client
from slurmgen.remote.ssh.config import destination
from slurmgen.remote.ssh.paramiko import connect
from tests.conftest import Run
from tests.support.sshd import Server

Serve = Callable[[socket.socket], None]
BANNER = b"SSH-2.0-mine\r\n"
SOON = 60.0
"Seconds on a busy machine."


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client whose time limit does not end a connection soon."""
    monkeypatch.setattr(ssh_client, "CONNECT_TIMEOUT", 4 * SOON)


@contextmanager
def listening(serve: Serve) -> Iterator[int]:
    """A server with a function for each connection; yields its port."""

    def accept() -> None:
        with suppress(OSError):
            while True:
                client = listener.accept()[0]
                with client, suppress(OSError):
                    serve(client)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def failure(server: Server, folder: Path, serve: Serve) -> RemoteError:
    with listening(serve) as port:
        config = Server(server.folder, port).config(folder)
        with pytest.raises(RemoteError) as caught:
            connect(destination("far", config))
    assert caught.value.exit_code == 3
    return caught.value


def sends(*chunks: bytes) -> Serve:
    """Send some bytes, then wait until the client disconnects."""

    def serve(client: socket.socket) -> None:
        for chunk in chunks:
            client.sendall(chunk)
        while client.recv(65536):
            pass

    return serve


def floods(chunk: bytes, first: bytes = b"") -> Serve:
    """Send the same bytes without end."""

    def serve(client: socket.socket) -> None:
        client.sendall(first)
        while True:
            client.sendall(chunk)

    return serve


def packet(payload: bytes) -> bytes:
    """A packet before the key exchange."""
    padding = 8 + -(len(payload) + 5) % 8
    return struct.pack(">IB", len(payload) + padding + 1, padding) + payload + bytes(padding)


def kexinit(*lists: bytes) -> bytes:
    """A server's offer of algorithms."""
    names = lists or (
        b"curve25519-sha256@libssh.org",
        b"ssh-ed25519",
        *(b"aes128-ctr",) * 2,
        *(b"hmac-sha2-256",) * 2,
        *(b"none",) * 2,
        *(b"",) * 2,
    )
    return packet(
        b"\x14" + bytes(16) + b"".join(struct.pack(">I", len(name)) + name for name in names) + bytes(5)
    )


@pytest.mark.parametrize(
    "serve",
    [
        sends(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 200),
        sends(b"\xff\xfe\x00" * 100 + b"\r\n"),
        sends(b"SSH-\r\n"),
        sends(b"SSH-9.9-new\r\n"),
        sends(b"SSH-2.0-\xff\xff\r\n" + b"\xff" * 1000),
        sends(BANNER, b"\0" * 10_000),
        sends(BANNER, b"\xff" * 10_000),
        sends(BANNER, packet(b"\x14")),
        sends(BANNER, packet(b"")),
        sends(BANNER, packet(b"\xfa")),
        sends(BANNER, packet(b"\x14" + bytes(16) + b"\xff\xff\xff\xff")),
        sends(BANNER, kexinit(*[b"\xff\xfe"] * 10)),
        sends(BANNER, kexinit(*[b""] * 10)),
        sends(BANNER, kexinit(), packet(b"\x1f" + b"\xff" * 200)),
        sends(BANNER, kexinit(), packet(b"\x1f" + struct.pack(">I", 4) + b"\xff" * 40)),
        sends(BANNER, kexinit(), packet(b"\x15")),
        sends(BANNER, packet(b"\x01" + struct.pack(">II", 2, 4) + b"\x1b[2J" + bytes(4))),
    ],
)
@pytest.mark.usefixtures("patient")
def test_a_server_that_is_not_ssh_is_a_failed_connection(
    server: Server, tmp_path: Path, serve: Serve
) -> None:
    begun = time.monotonic()
    error = failure(server, tmp_path, serve)
    assert isinstance(error, ConnectionFailed)
    assert str(error).isprintable()
    assert "far" in error.fact
    assert error.hint
    assert time.monotonic() - begun < SOON


@pytest.mark.parametrize(
    "serve",
    [
        floods(b"x" * 4096),
        floods(b"x" * 250 + b"\r\n"),
        floods(b"\r\n"),
        floods(packet(b"\x02" + struct.pack(">I", 1000) + bytes(1000)), BANNER),
        floods(packet(b"\x02" + struct.pack(">I", 1000) + bytes(1000)), BANNER + kexinit()),
    ],
)
@pytest.mark.usefixtures("patient")
def test_a_flood_ends_the_connection(server: Server, tmp_path: Path, serve: Serve) -> None:
    begun = time.monotonic()
    assert isinstance(failure(server, tmp_path, serve), ConnectionFailed)
    assert time.monotonic() - begun < SOON


def test_a_server_that_sends_slowly_times_out(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_client, "CONNECT_TIMEOUT", 1.0)

    def serve(client: socket.socket) -> None:
        client.sendall(BANNER)
        while True:
            client.sendall(packet(b"\x02\0\0\0\0"))
            time.sleep(0.1)

    error = failure(server, tmp_path, serve)
    late = "far did not reply in time: no keys were exchanged within 1 seconds"
    assert error.fact in (late, "the connection to far broke")  # whichever thread is first


def test_a_message_of_the_server_cannot_control_the_terminal(
    server: Server, tmp_path: Path, slurmgen: Run
) -> None:
    with listening(sends(b"\x1b[2J\x1b]0;mine\x07\xc2\x9b2J\r\n" * 200)) as port:
        config = Server(server.folder, port).config(tmp_path)
        reply = slurmgen("doctor", "--site", "generic", "--host", "far", "--ssh-config", config)
    assert reply.returncode == 3
    assert "far" in reply.stdout
    assert set(reply.stdout + reply.stderr) & {"\x1b", "\x07", "\x9b"} == set()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=3))
def test_no_message_before_the_key_exchange_is_a_bug(
    server: Server, tmp_path: Path, payloads: list[bytes]
) -> None:
    with patch.object(ssh_client, "CONNECT_TIMEOUT", 1.0):
        assert failure(server, tmp_path, sends(BANNER, kexinit(), *map(packet, payloads))).hint


class Odd(paramiko.ServerInterface):
    """A server that replies to a login with nonsense."""

    def __init__(self, methods: bytes) -> None:
        self.methods = methods

    def get_allowed_auths(self, username: str) -> str:
        return self.methods  # type: ignore[return-value]


@pytest.mark.parametrize("methods", [b"\xff\xfe", b"", b",,,", b"none", b"\x1b[2J"])
def test_odd_authentication_methods_are_a_failed_login(
    server: Server, tmp_path: Path, methods: bytes
) -> None:
    running: list[paramiko.Transport] = []

    def serve(client: socket.socket) -> None:
        transport = paramiko.Transport(client)
        running.append(transport)
        transport.add_server_key(paramiko.PKey.from_path(server.folder / "host_key"))
        transport.start_server(event=threading.Event(), server=Odd(methods))
        transport.join(20)

    error = failure(server, tmp_path, serve)
    assert isinstance(error, ConnectionFailed | AuthenticationFailed)
    assert str(error).isprintable()
    for transport in running:
        transport.close()


def test_an_impossible_host_name_is_a_failed_connection(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(f"Host far\n HostName {'a' * 70}.org\n")
    with pytest.raises(ConnectionFailed, match="cannot connect to far"):
        connect(destination("far", str(tmp_path / "config")))


def test_completion_ends_whatever_the_config_is(tmp_path: Path) -> None:
    from slurmgen.remote.ssh.config import aliases

    os.mkfifo(tmp_path / "fifo")
    lines = f"Include {tmp_path}/config {tmp_path}/fifo\n" * 100
    (tmp_path / "config").write_bytes(lines.encode() + b"Host far \xff\n")
    assert aliases(str(tmp_path / "config"))[0] == "far"
