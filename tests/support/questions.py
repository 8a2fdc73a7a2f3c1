"""A server that prompts for a password and a one-time code, and then runs real commands.

It is paramiko's, a stand-in for sshd: sshd asks two questions only through PAM, which wants a
machine of its own.
"""

import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import paramiko

PASSWORD, CODE = "hunter2", "924816"
GONE = (EOFError, OSError, paramiko.SSHException)
"What is raised where the client has left."
ROUNDS = {
    "together": [[("Password: ", PASSWORD), ("One-time code: ", CODE)]],
    "one by one": [[("Password: ", PASSWORD)], [("One-time code: ", CODE)]],
}


class Serving(paramiko.Transport):
    """The end of a connection at a server."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._has_replied = threading.Event()

    def _send_user_message(self, data: paramiko.Message) -> None:
        super()._send_user_message(data)
        self._has_replied.set()

    def begin(self, command: Callable[..., None], *args: object) -> None:
        """Run a command in a thread, once the client has the reply to its request."""
        self._has_replied.clear()

        def run() -> None:
            self._has_replied.wait(60)
            command(*args)

        threading.Thread(target=run, daemon=True).start()


class _Asking(paramiko.ServerInterface):
    def __init__(self, server: "Questions") -> None:
        self.server = server
        self.rounds = list(ROUNDS[server.kind])

    def get_allowed_auths(self, username: str) -> str:
        return "keyboard-interactive"

    def check_auth_interactive(self, username: str, submethods: str) -> paramiko.InteractiveQuery:
        self.rounds = list(ROUNDS[self.server.kind])
        return self._ask()

    def check_auth_interactive_response(self, responses: list[str]) -> int | paramiko.InteractiveQuery:
        if responses != [answer for _, answer in self.rounds.pop(0)]:
            return paramiko.AUTH_FAILED
        if self.rounds:
            return self._ask()
        self.server.logins += 1
        return paramiko.AUTH_SUCCESSFUL

    def _ask(self) -> paramiko.InteractiveQuery:
        return paramiko.InteractiveQuery("", "", *((prompt, False) for prompt, _ in self.rounds[0]))

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        channel.get_transport().begin(_execute, channel, command, self.server)
        return True


def _execute(channel: paramiko.Channel, command: bytes, server: "Questions") -> None:
    process = subprocess.Popen(
        ["bash", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=server.home,
        env=server.environ,
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    pumps = [
        threading.Thread(target=_pump, args=(process.stdout.fileno(), channel.sendall)),
        threading.Thread(target=_pump, args=(process.stderr.fileno(), channel.sendall_stderr)),
    ]
    threading.Thread(target=_feed, args=(channel, process.stdin), daemon=True).start()
    with process, suppress(*GONE):  # the client may have left
        for pump in pumps:
            pump.start()
        for pump in pumps:
            pump.join()
        channel.send_exit_status(process.wait())
    with suppress(*GONE):
        channel.close()


def _pump(source: int, send: Callable[[bytes], None]) -> None:
    with suppress(*GONE):
        for chunk in iter(lambda: os.read(source, 65536), b""):
            send(chunk)


def _feed(channel: paramiko.Channel, stdin: IO[bytes]) -> None:
    with suppress(*GONE, ValueError):  # the command may have ended
        for chunk in iter(lambda: channel.recv(65536), b""):
            stdin.write(chunk)
            stdin.flush()
        stdin.close()


@dataclass
class Questions:
    """A running server; `logins` counts the successful logins."""

    kind: str
    home: Path
    environ: dict[str, str]
    port: int = 0
    logins: int = 0


@contextmanager
def serving(host_key: Path, make: Callable[[], paramiko.ServerInterface]) -> Iterator[int]:
    """Serve each connection to a port of the loopback by an interface of its own; yields the port."""
    listener = socket.create_server(("127.0.0.1", 0))
    running: list[paramiko.Transport] = []

    def serve() -> None:
        with suppress(OSError):  # the listener was closed
            while True:
                transport = Serving(listener.accept()[0])
                running.append(transport)
                transport.add_server_key(paramiko.PKey.from_path(host_key))
                transport.start_server(event=threading.Event(), server=make())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)
        for transport in running:
            transport.close()


@contextmanager
def questions(kind: str, host_key: Path, home: Path, environ: dict[str, str]) -> Iterator[Questions]:
    """Start a server with two prompts; it ends with the block."""
    server = Questions(kind, home, environ)
    with serving(host_key, lambda: _Asking(server)) as server.port:
        yield server
