"""Runs `slurmgen` as a copy of one process that has imported it: most of a short command's time is imports.

Each command is a process of its own, with its arguments, folder, environment and streams, as if it had been
started alone. Only what Python decides before it runs a program is that of the server. So a command whose
environment has other variables of Python, of the locale or of the dynamic linker is started alone.
"""

import array
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
BEFORE_PYTHON = ("PYTHON", "LC_", "LANG", "LD_")
"Beginnings of the variables that act before a program runs."
LIMIT = 300
"Seconds that a command may take."
STARTED = {name: text for name, text in os.environ.items() if name.startswith(BEFORE_PYTHON)}


def can_run(environ: Mapping[str, str]) -> bool:
    """Whether a command with this environment may be a copy of the server."""
    return {name: text for name, text in environ.items() if name.startswith(BEFORE_PYTHON)} == STARTED


def run(
    args: tuple[str, ...], cwd: Path, environ: Mapping[str, str], given: str | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run `slurmgen ARGS` in a folder; `given` is its input. Raises subprocess.TimeoutExpired."""
    with ExitStack() as stack, ThreadPoolExecutor(3) as pool:
        own, reply = socket.socketpair()
        stack.enter_context(own)
        outputs, theirs = [], [reply.fileno()]
        if given is None:
            theirs.append(0)
        else:
            source, sink = os.pipe()
            theirs.append(source)
            pool.submit(_write, sink, given)
        for _ in range(2):
            source, sink = os.pipe()
            outputs.append(pool.submit(_read, source))
            theirs.append(sink)
        socket.send_fds(_server(), [b"."], theirs)
        for number in theirs[1:]:
            if number:
                os.close(number)
        reply.close()
        own.sendall(json.dumps([args, str(cwd), dict(environ)]).encode())
        own.shutdown(socket.SHUT_WR)
        return subprocess.CompletedProcess(
            args, _exit_code(own, args), *(output.result() for output in outputs)
        )


def _exit_code(own: socket.socket, args: tuple[str, ...]) -> int:
    """Wait for the process id, then for the exit code; kill the process if it takes too long."""
    own.settimeout(LIMIT)
    numbers = array.array("i")
    text = own.recv(numbers.itemsize)
    assert text, "the server of commands has ended"
    numbers.frombytes(text)
    try:
        numbers.frombytes(own.recv(numbers.itemsize))
    except TimeoutError:
        os.kill(numbers[0], signal.SIGKILL)
        raise subprocess.TimeoutExpired(args, LIMIT) from None
    return numbers[1]


def _write(sink: int, text: str) -> None:
    with suppress(BrokenPipeError), open(sink, "w") as stream:  # as subprocess.run does
        stream.write(text)


def _read(source: int) -> str:
    with io.TextIOWrapper(open(source, "rb")) as stream:
        return stream.read()


@cache
def _server() -> socket.socket:
    """The control connection of this process's server, which ends with it."""
    own, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    code = f"from {__name__} import serve; serve({theirs.fileno()})"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        env=dict(os.environ),
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
    )
    theirs.close()
    _server_process.append(process)
    return own


_server_process: list["subprocess.Popen[bytes]"] = []
"Kept, because a Popen that is collected warns of a process that still runs."


def serve(control: int) -> None:
    """Run what is asked for on the control connection until it is closed."""
    from slurmgen.cli import main

    _import_everything()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    connection = socket.socket(fileno=control)
    while True:
        word, fds, *_ = socket.recv_fds(connection, 1, 4)
        if not word:
            os._exit(0)
        if os.fork() == 0:
            connection.close()
            _become(fds)
            main()
            return
        for number in fds:
            os.close(number)


def _import_everything() -> None:
    """Import all commands and what they import later, except PyTorch and the web server."""
    import importlib

    import jinja2  # noqa: F401
    import paramiko  # noqa: F401
    import rich.console
    import rich.progress  # noqa: F401
    import tree_sitter_bash  # noqa: F401

    for path in sorted((REPOSITORY / "slurmgen" / "cli").glob("[a-z]*.py")):
        importlib.import_module(f"slurmgen.cli.{path.stem}")
    for name in ("render", "submit.job", "status.wait", "status.listing", "doctor", "lint.engine"):
        importlib.import_module(f"slurmgen.{name}")


def _become(fds: list[int]) -> None:
    """Return in a process that is the command; this one waits for it, and reports its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    reply = socket.socket(fileno=fds[0])
    with reply.makefile("rb") as stream:
        args, cwd, environ = json.load(stream)
    pid = os.fork()
    if pid:
        for number in fds[1:]:
            os.close(number)
        reply.sendall(array.array("i", [pid]).tobytes())
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        reply.sendall(array.array("i", [code]).tobytes())
        os._exit(0)
    reply.close()
    for number, fd in enumerate(fds[1:]):
        os.dup2(fd, number)
    for fd in fds[1:]:
        if fd > 2:
            os.close(fd)
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()
    os.chdir(cwd)
    sys.argv = [str(REPOSITORY / "slurmgen" / "__main__.py"), *args]
