"""Programs that connect to the job's port without its token: the check of the nodes goes on without them."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.preflight.checks import PROGRAM, PYTHON, check

sys.path.insert(0, PROGRAM)
import greetings  # type: ignore[import-not-found]
import transfer  # type: ignore[import-not-found]
import wire  # type: ignore[import-not-found]

sys.path.remove(PROGRAM)

TOKEN = "the token of a test"  # noqa: S105
NOISE = [b"GET / HTTP/1.0\r\n\r\n", b"\xff\xfe\n", b"[" * 60000 + b"\n", b"7\n", b'{"token": "other"}\n']
# A node that connects and sends something else before the program of the node starts.
STRANGER = """import os, runpy, socket, sys
host, port = os.environ["SLURMGEN_PREFLIGHT"].split()[:2]
kept = [socket.create_connection((host, int(port))) for _ in range(6)]
kept[0].sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
kept[1].sendall(b"{")
sys.path.insert(0, sys.argv[1])
runpy.run_path(sys.argv.pop(1), run_name="__main__")"""


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with wire.listener() as listener:
        yield listener


def connect(server: socket.socket, sent: bytes = b"") -> socket.socket:
    stranger = socket.create_connection(("127.0.0.1", server.getsockname()[1]), timeout=120)
    stranger.sendall(sent)
    return stranger


def greeted(server: socket.socket, expected: int) -> list[Any]:
    """The greetings that arrive."""
    waiting, found = greetings.Greetings(server, TOKEN), []
    end = time.monotonic() + 120
    while time.monotonic() < end and (len(found) < expected or not waiting.idle):
        found += waiting.arrived()
    waiting.close()
    for channel, _, _ in found:
        channel.close()
    return [greeting["node"] for _, greeting, _ in found]


def greeting(node: int) -> bytes:
    return json.dumps({"token": TOKEN, "node": node, "port": 1}).encode() + b"\n"


@pytest.mark.parametrize("noise", NOISE, ids=["http", "binary", "nested", "number", "wrong token"])
def test_noise_is_ignored(server: socket.socket, noise: bytes) -> None:
    with connect(server, noise) as stranger, connect(server, greeting(3)):
        assert greeted(server, 1) == [3]
        assert closed(stranger)


def test_silent_connections_delay_no_node(server: socket.socket) -> None:
    with connect(server), connect(server, b"x"), connect(server, greeting(1)), connect(server, greeting(2)):
        assert sorted(greeted(server, 2)) == [1, 2]


def test_a_greeting_may_arrive_in_parts(server: socket.socket) -> None:
    waiting = greetings.Greetings(server, TOKEN)
    with connect(server, greeting(4)[:9]) as node:
        while not waiting.idle:
            assert list(waiting.arrived()) == []
        node.sendall(greeting(4)[9:])
        ((channel, found, host),) = waiting.arrived()
    channel.close()
    waiting.close()
    assert (found["node"], host) == (4, "127.0.0.1")


def test_bytes_do_not_extend_the_time_of_a_connection(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(greetings, "LIMIT", 0.0)
    waiting = greetings.Greetings(server, TOKEN)
    with connect(server, b"x") as stranger:
        assert list(waiting.arrived()) == []
        assert closed(stranger)
    waiting.close()


def test_strangers_do_not_change_the_result(tmp_path: Path) -> None:
    result = check(tmp_path, 2, special={1: [*PYTHON, "-c", STRANGER, PROGRAM, "node"]})
    assert (result.status, result.findings) == (0, {}), result.output


def closed(connection: socket.socket) -> bool:
    """Whether the other end closed it."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


SERVER = """import sys
sys.path.insert(0, sys.argv[1])
import transfer
print(transfer.serve(b"0" * 32), flush=True)
sys.stdin.read()"""


def test_silent_strangers_take_no_memory_and_no_place_of_a_peer() -> None:
    command = [sys.executable, "-c", SERVER, PROGRAM]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as served, ExitStack() as held:
        assert served.stdout
        port, folder = int(served.stdout.readline()), Path(f"/proc/{served.pid}")
        before = int((folder / "statm").read_text().split()[1])
        for number in range(400):
            stranger = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            stranger.sendall(b"0" * (number % 32))
        with socket.create_connection(("127.0.0.1", port), timeout=60) as wrong:
            wrong.sendall(b"1" * 32)
            assert closed(wrong)
        assert transfer.measure("127.0.0.1", port, b"0" * 32)["speed"] > 0
        pages = int((folder / "statm").read_text().split()[1]) - before
        assert pages * os.sysconf("SC_PAGE_SIZE") < 40 << 20
        assert len(list((folder / "task").iterdir())) <= 3
        served.kill()
