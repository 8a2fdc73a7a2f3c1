"""Runs ranks as copies of one process that has imported torch: for jobs with many ranks on one machine.

Each import of torch takes 300 MB and a second of CPU. With `folder` first in PATH, `python SCRIPT` in a task
sends its arguments, environment, folder and output to the server. The server forks a copy of itself that
is the rank, and the task ends with its exit code.

with forking(folder):
    testbed.batch(script, PATH=f"{folder}:{os.environ['PATH']}")
"""

import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CLIENT = """#!/usr/bin/python3 -ISE
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
socket.send_fds(server, [json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()], [1, 2])
server.shutdown(socket.SHUT_WR)
sys.exit(int(server.recv(8) or b"1"))
"""


@contextmanager
def forking(folder: Path) -> Iterator[None]:
    """A server in a folder, and its client `python`; server and ranks end with the block."""
    address = str(folder / "socket")
    client = folder / "python"
    client.write_text(CLIENT.format(address=address))
    client.chmod(0o755)
    own = {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    argv = [sys.executable, "-m", __name__, address]
    with subprocess.Popen(argv, env=os.environ | own, stdout=subprocess.PIPE, process_group=0) as server:
        try:
            assert server.stdout
            server.stdout.readline()  # it is ready
            yield
        finally:
            os.killpg(server.pid, signal.SIGKILL)


def serve(address: str) -> None:
    """Accept requests; a process of its own waits for each rank."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(4096)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    os.write(1, b"ready\n")
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _answer(connection)
            os._exit(0)
        connection.close()


def _answer(connection: socket.socket) -> None:
    """Run the requested rank, and send its exit code."""
    text, fds, *_ = socket.recv_fds(connection, 1 << 20, 2)
    while more := connection.recv(1 << 20):
        text += more
    rank = os.fork()
    if rank == 0:
        os._exit(_be_rank(*json.loads(text), fds))
    connection.send(b"%d" % (os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1]) & 255))


def _be_rank(argv: list[str], environ: dict[str, str], cwd: str, fds: list[int]) -> int:
    for number, fd in enumerate(fds, 1):
        os.dup2(fd, number)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(cwd)
    sys.argv = argv
    try:
        runpy.run_path(argv[0], run_name="__main__")
    finally:
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    import torch  # noqa: F401

    serve(sys.argv[1])
