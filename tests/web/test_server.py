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

from slurmgen.web.limits import Limits
from slurmgen.web.server import listen
from tests.support import command_server
from tests.support.ports import free_port
from tests.support.programs import write_programs
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
    done = command_server.run(("web", *arguments), Path.cwd(), os.environ)
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
    shown = f'{{ echo "$1"; stat -c %a "${{1#file://}}"; cat "${{1#file://}}"; }} > {seen}'
    write_programs(tmp_path, {"browser": shown})
    with web("--open", BROWSER=str(tmp_path / "browser")) as (process, address):
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


BODY = b"POST /lint/findings HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\na"


def test_clients_with_slow_bodies_are_disconnected_and_a_public_page_answers_again() -> None:
    with served(public=True, limits=Limits(1000, transfer=0.5)) as server, ExitStack() as held:
        slow = [
            held.enter_context(socket.create_connection(("127.0.0.1", server.port), 60)) for _ in range(99)
        ]
        for one in slow:
            one.sendall(BODY)
        replies = [one.makefile("rb").read() for one in slow]
        assert {reply[:12] for reply in replies} == {b"HTTP/1.1 408"}
        assert get(f"{server.origin}/healthz").status_code == 200


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
        assert get(f"{address}healthz").status_code in {200, 503}
        assert _memory(process.pid) - before < 200 << 20


def _memory(pid: int) -> int:
    """Bytes that a process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_body_in_chunks_is_refused_before_it_is_parsed() -> None:
    """Chunks of a byte would keep the server from answering others."""
    head = b"POST /generator HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    with served(public=True) as server:
        assert _reply(server.origin, head + b"1\r\na\r\n")[:12] == b"HTTP/1.1 411"


def test_large_headers_are_refused() -> None:
    with served(public=True) as server:
        reply = _reply(server.origin, b"GET / HTTP/1.1\r\nHost: a\r\nA: " + b"x" * 1_000_000)
    assert reply[:12] in {b"HTTP/1.1 400", b""}
