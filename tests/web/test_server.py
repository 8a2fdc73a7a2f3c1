"""`slurmgen web` as a process: its address, its limits for connections, and its end."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from slurmgen.web import server as web_server
from slurmgen.web.jobs import poller
from slurmgen.web.limits import Limits
from slurmgen.web.server import listen
from tests.support.ports import free_port
from tests.support.web import served

SLURMGEN = [sys.executable, "-m", "slurmgen"]
PATIENCE = 60.0
"Seconds for a reply; a server that has just started on a busy machine may need more than the 5 of httpx."


@contextmanager
def web(*arguments: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command, and the address that it prints."""
    process = subprocess.Popen(
        [*SLURMGEN, "web", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | variables,
    )
    assert process.stdout
    try:
        yield process, process.stdout.readline().rstrip("\n")
    finally:
        process.kill()
        process.communicate()


def get(address: str, **options: Any) -> httpx.Response:
    return httpx.get(address, timeout=PATIENCE, **options)


def client_of(**options: Any) -> httpx.Client:
    return httpx.Client(timeout=PATIENCE, **options)


def refused(*arguments: str) -> str:
    """What the command prints for a request that is not valid."""
    done = subprocess.run([*SLURMGEN, "web", *arguments], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


def test_interrupted_it_ends_with_nothing_on_stdout_but_the_address() -> None:
    with web() as (process, address):
        assert get(address, follow_redirects=False).status_code == 303
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout, stderr) == (0, "", "serving until ^C\n")


def test_an_open_stream_of_events_neither_delays_its_end_nor_is_an_error() -> None:
    with web() as (process, address), client_of(follow_redirects=True) as client:
        client.get(address)
        with client.stream("GET", f"{address.partition('?')[0]}jobs/events") as stream:
            assert next(stream.iter_text())
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (0, "serving until ^C\n")


def test_two_servers_do_not_share_a_cookie() -> None:
    with web() as (_, first), web() as (_, second), client_of(follow_redirects=True) as client:
        assert client.get(first).status_code == 200
        assert client.get(second).status_code == 200
        assert client.get(first.partition("?")[0]).status_code == 200


def test_a_server_with_a_new_token_refuses_the_cookie_of_the_last() -> None:
    with client_of(follow_redirects=True) as client:
        port = str(free_port())  # not one that the kernel gives to others meanwhile
        with web("--port", port) as (_, address):
            client.get(address).raise_for_status()
        page = address.partition("?")[0]
        with web("--port", port) as (_, again):
            assert client.get(page).status_code == 403
            assert client.get(again).status_code == 200


def test_a_reply_is_sent_at_once() -> None:
    """Without this option, the second part of each reply waits until the first is acknowledged: 40 ms."""
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        connected, _ = listener.accept()
        with connected:
            assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_port_in_use_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"cannot listen on 127.0.0.1, port {port}: Address already in use" in refused("--port", port)


def test_it_listens_on_ipv6() -> None:
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    with web("--host", "::1") as (_, address):
        assert address.startswith("http://[::1]:")
        assert get(address, follow_redirects=True).status_code == 200


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        ("--host 0.0.0.0", "would show your jobs to others"),
        ("--proxy 127.0.0.1", "has no effect without --public"),
        ("--public --proxy nginx", "is not an address"),
        ("--public --base-path slurmgen", "is not a path"),
        ("--public --base-path /a/../b", "is not a path"),
        ("--public --base-path //evil.example", "is not a path"),
        ("--public --base-path /a;b", "is not a path"),
        ("--public --host no-host.invalid", "is not a host"),
    ],
)
def test_an_option_that_is_not_valid_is_refused(arguments: str, fact: str) -> None:
    assert fact in refused(*arguments.split())


def test_the_token_does_not_appear_in_the_arguments_of_the_browser(tmp_path: Path) -> None:
    """All users of a machine see them; a file of mode 600 leads to the address."""
    seen = tmp_path / "seen"
    os.mkfifo(seen)
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\n{{ echo "$1"; stat -c %a "${{1#file://}}"; cat "${{1#file://}}"; }} > {seen}\n'
    )
    browser.chmod(0o755)
    with web("--open", BROWSER=str(browser)) as (process, address):
        argument, mode, page = seen.read_text().split("\n", 2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert address.partition("=")[2] not in argument
    assert (mode, f"url={address}" in page) == ("600", True)
    assert not Path(argument.removeprefix("file://")).exists()


def test_a_machine_without_a_browser_is_reported(tmp_path: Path) -> None:
    with web("--open", PATH=str(tmp_path), BROWSER="no-such-browser") as (process, _):
        assert process.stderr
        lines = {process.stderr.readline() for _ in range(2)}
    assert "found no browser; open the address above\n" in lines


def test_a_public_server_limits_each_client() -> None:
    with web("--public", "--rate", "1") as (_, address), client_of() as client:
        assert "token" not in address
        statuses = [client.get(f"{address}healthz").status_code for _ in range(20)]
        assert (statuses[:3], 429 in statuses) == ([200] * 3, True)
        # A client cannot choose another address.
        others = [{"x-forwarded-for": f"192.0.2.{number}"} for number in range(20)]
        assert 429 in [client.get(f"{address}healthz", headers=other).status_code for other in others]


def test_behind_a_proxy_each_client_has_its_own_limit() -> None:
    with web("--public", "--rate", "1", "--proxy", "127.0.0.0/8") as (_, address), client_of() as client:

        def status(forwarded: str) -> int:
            return client.get(f"{address}healthz", headers={"x-forwarded-for": forwarded}).status_code

        assert 429 in [status("192.0.2.7") for _ in range(20)]
        assert status("192.0.2.8") == 200
        # A client cannot add to what the proxy says.
        assert 429 in [status(f"192.0.2.{number}, 192.0.2.7") for number in range(10, 30)]


def _reply(origin: str, request: bytes) -> bytes:
    """What the server sends until it ends the connection."""
    with socket.create_connection(("127.0.0.1", httpx.URL(origin).port or 0), timeout=60) as connected:
        try:
            connected.sendall(request)
            return connected.makefile("rb").read()
        except (ConnectionResetError, BrokenPipeError):
            return b""


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HT", b"POST /lint HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx"]
)
def test_a_slow_client_is_disconnected(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(web_server, "SECONDS", 0.2)
    with served(public=True, limits=Limits(20)) as server:
        assert _reply(server.origin, sent) == b""


def test_a_connection_may_stay_longer_than_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time begins again with each reply."""
    ended = []
    monkeypatch.setattr(web_server.Timed, "_restart", lambda self: ended.append(1))
    with served(public=True) as server, client_of() as client:
        for _ in range(3):
            client.get(f"{server.origin}/healthz").raise_for_status()
    assert len(ended) == 4


BODY = b"POST /lint/findings HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\na"
SLOW = [b"", b"GET / HT", BODY, b"GET /static/vendor/codemirror.min.js HTTP/1.1\r\nHost: x\r\n\r\n"]


@pytest.mark.parametrize("sent", SLOW, ids=["nothing", "half a head", "half a body", "and reads nothing"])
def test_three_clients_with_slow_connections_do_not_lock_a_public_page(sent: bytes) -> None:
    with web("--public", "--rate", "1000") as (_, address), ExitStack() as held:
        port = httpx.URL(address).port or 0
        for number in range(3 * web_server.Timed.most):
            one = socket.create_connection(("127.0.0.1", port), 60, (f"127.0.0.{1 + number % 3}", 0))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            held.enter_context(one).sendall(sent)
        for _ in range(8):
            transport = httpx.HTTPTransport(local_address="127.0.0.9")
            with client_of(transport=transport) as client:
                assert client.get(f"{address}healthz").status_code == 200


def test_bodies_that_are_not_complete_take_little_memory() -> None:
    body = BODY + b"a" * 999_000
    with web("--public", "--rate", "1000") as (process, address), ExitStack() as held:
        assert get(f"{address}healthz").status_code == 200
        before = _memory(process.pid)
        for number in range(300):
            with suppress(ConnectionError):
                peer = ("127.0.0.1", httpx.URL(address).port or 0)
                one = socket.create_connection(peer, 60, (f"127.0.0.{1 + number % 3}", 0))
                held.enter_context(one).sendall(body)
        assert get(f"{address}healthz").status_code == 200
        assert _memory(process.pid) - before < 200 << 20


def _memory(pid: int) -> int:
    """Bytes that a process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_client_makes_room_for_itself_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server.Timed, "most", 3)
    with served(public=True) as server, ExitStack() as others:

        def opened(source: str) -> socket.socket:
            one = socket.create_connection(("127.0.0.1", server.port), 60, (source, 0))
            return others.enter_context(one)

        user = opened("127.0.0.9")
        first = [opened("127.0.0.1") for _ in range(6)]
        assert _ended(first[0])
        assert _ended(first[3])
        user.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert user.recv(8) == b"HTTP/1.1"


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", BODY])
def test_others_who_hold_many_connections_do_not_keep_out_the_user(sent: bytes) -> None:
    with web() as (_, address), ExitStack() as others:
        for _ in range(web_server.Bounded.most + 10):
            other = socket.create_connection(("127.0.0.1", httpx.URL(address).port), timeout=60)
            others.enter_context(other).sendall(sent)
        assert get(address).status_code == 303


def test_others_do_not_end_what_is_being_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server.Bounded, "most", 2)
    monkeypatch.setattr(poller, "_HEARTBEAT", 0.01)
    with served() as server, ExitStack() as others, client_of(follow_redirects=True) as user:
        user.get(server.entry).raise_for_status()
        with user.stream("GET", f"{server.origin}/jobs/events") as stream:
            texts = stream.iter_text()
            idle = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(5)]
            for one in idle:
                others.enter_context(one)
            assert _ended(idle[0])
            assert [next(texts) for _ in range(20)][-1].endswith(": still here\n\n")


@pytest.mark.parametrize("public", [True, False])
def test_the_connection_that_is_idle_for_longest_makes_room(
    monkeypatch: pytest.MonkeyPatch, public: bool
) -> None:
    monkeypatch.setattr(web_server.Timed if public else web_server.Bounded, "most", 2)
    with served(public=public) as server, ExitStack() as opened:
        first, second = (
            opened.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            for _ in range(2)
        )
        assert _reply(server.origin, b"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
        assert _ended(first)
        second.sendall(b"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
        assert second.recv(8) == b"HTTP/1.1"


def _ended(connected: socket.socket) -> bool:
    """Whether the server ended a connection, without a reply."""
    try:
        return connected.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_body_in_chunks_is_refused_before_it_is_parsed() -> None:
    """Chunks of a byte would keep the server from answering others."""
    head = b"POST /generator HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    with served(public=True) as server:
        assert _reply(server.origin, head + b"1\r\na\r\n")[:12] == b"HTTP/1.1 400"
        assert server.statuses == []


def test_large_headers_are_refused() -> None:
    with served(public=True) as server:
        reply = _reply(server.origin, b"GET / HTTP/1.1\r\nHost: a\r\nA: " + b"x" * 1_000_000)
    assert reply[:12] in {b"HTTP/1.1 400", b""}
