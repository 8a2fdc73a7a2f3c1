"""A `python` whose processes are copies of one that has imported PyTorch, Lightning and accelerate.

Importing them takes a process two to seven seconds of CPU. The program `python` of `warm()` asks a server for
a copy of itself that runs a script or module, with the same arguments, environment, folder, CPUs and files.
The program passes signals on to the copy, dies with it, and ends as it does. What the copy starts with
`sys.executable`, as torchrun starts its ranks, is a copy too. But it is not a child of the program: Slurm
sends a job's signals to torchrun and not to its ranks.

One server serves a whole run of the tests, and ends with it. A variable that Python or PyTorch reads when it
starts makes the program start Python itself: see `CLIENT`.
"""

import atexit
import faulthandler
import fcntl
import gc
import importlib
import inspect
import json
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from contextlib import suppress
from functools import cache
from pathlib import Path

IMPORTED = ["accelerate", "lightning.pytorch.strategies", "sklearn.datasets", "torch._dynamo"]
IMPORTED += ["torch.utils.data", "torch.utils.flop_counter", "torch.distributed.fsdp"]
IMPORTED += ["torch.distributed.checkpoint.state_dict", "torch.distributed.launcher.api"]
IMPORTED += ["torch.distributed.elastic.rendezvous.c10d_rendezvous_backend"]

CLIENT = """#!{python} -ISE
import json, os, re, signal, socket, sys
arguments = [word for word in sys.argv[1:2] if word != "-u"] + sys.argv[2:]
early = re.compile(
    "TORCH_(DISTRIBUTED_DEBUG|LOGS|CPP_LOG_LEVEL)$|PYTHON(?!PATH$|UNBUFFERED$|FAULTHANDLER$|$)|LD_PRELOAD$"
)
numbers = [int(name) for name in os.listdir("/proc/self/fd")]
if (
    not arguments
    or arguments[0].startswith("-") and arguments[0] not in ("-m", "-c")
    or any(map(early.match, os.environ))
    or os.environ.get("ATEN_CPU_CAPABILITY") != {kernels!r}
    or len(numbers) > 200
):
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
numbers = [number for number in numbers if os.path.exists(f"/proc/self/fd/{{number}}")]
passed = [getattr(signal, f"SIG{{name}}") for name in "HUP INT TERM USR1 USR2 TSTP CONT".split()]
ignored = [number for number in passed if signal.getsignal(number) is signal.SIG_IGN]
cpus = sorted(os.sched_getaffinity(0))
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
socket.send_fds(server, [b"."], numbers)
request = [arguments, dict(os.environ), os.getcwd(), numbers, ignored, cpus]
# A signal that comes before its handler waits, even an ignored one: the copy may run before this goes on.
mask = signal.pthread_sigmask(signal.SIG_BLOCK, passed)
server.sendall(json.dumps(request).encode() + b"\\n")
for number in passed:  # also an ignored one, which the copy may want to get later
    signal.signal(number, lambda number, _: server.send(bytes([number])))
signal.pthread_sigmask(signal.SIG_SETMASK, mask)
code = int(server.recv(8) or -signal.SIGKILL)
if code < 0:
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""
REPOSITORY = str(Path(__file__).parents[2])
LAUNCHERS = {"torchrun": "torch.distributed.run", "accelerate": "accelerate.commands.accelerate_cli"}


@cache
def warm() -> Path:
    """This `python`, which is ready; it is the one in `environment()`."""
    folder = environment()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            _make_environment(folder)
            _start_server(folder)
            (folder / "ready").touch()
    return folder / "bin" / "python"


def environment() -> Path:
    """The folder of a virtual environment like that of the tests, but with this `python`."""
    return Path(os.environ["TEST_RUN_FOLDER"], "warm")


def _make_environment(folder: Path) -> None:
    programs, real = folder / "bin", Path(sys.executable).parent
    programs.mkdir()
    (folder / "lib").symlink_to(real.parent / "lib")
    for program in real.iterdir():
        (programs / program.name).symlink_to(program)
    kernels = os.environ.get("ATEN_CPU_CAPABILITY")
    address = str(folder / "socket")
    texts = {
        name: f'#!/bin/sh\nexec {programs}/python -m {module} "$@"\n' for name, module in LAUNCHERS.items()
    }
    texts["python"] = CLIENT.format(python=sys.executable, address=address, kernels=kernels)
    for name, text in texts.items():
        (programs / name).unlink()
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)


def _start_server(folder: Path) -> None:
    """Start the server, which ends with the process that owns the run."""
    own = {"PYTHONPATH": REPOSITORY, "OMP_NUM_THREADS": "1"}
    argv = [sys.executable, "-m", __name__, str(folder), os.environ["TEST_RUN_OWNER"]]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            argv,
            env=os.environ | own,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert server.stdout
    with server.stdout:
        assert server.stdout.readline() == b"ready\n", (folder / "log").read_text()
    server.returncode = 0  # it outlives this process


def serve(address: str, owner: int) -> None:
    """Run what is asked for, each in a process of its own, until the owner has ended."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(4096)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    gc.freeze()  # a collection in a copy would write to all objects, and so copy the memory
    os.write(1, b"ready\n")
    os.dup2(2, 1)
    while owner not in select.select([listener, owner], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _answer(connection, owner)
            os._exit(0)
        connection.close()


def _answer(connection: socket.socket, owner: int) -> None:
    """Run the requested copy, and send its exit code."""
    _, fds, *_ = socket.recv_fds(connection, 1, 250)
    text = bytearray()
    while not text.endswith(b"\n"):
        if not (more := connection.recv(1 << 20)):
            return
        text += more
    copy = os.fork()
    if copy == 0:
        connection.close()
        os.close(owner)
        _be_copy(fds, *json.loads(text))
    for fd in fds:
        os.close(fd)
    code = _watched(copy, connection, owner)
    with suppress(ProcessLookupError):
        os.killpg(copy, signal.SIGKILL)  # such as workers of a data loader
    with suppress(OSError):
        connection.send(b"%d" % code)


def _watched(copy: int, connection: socket.socket, owner: int) -> int:
    """The exit code of a copy, which gets the signals of its client and dies with it, or with the owner."""
    end = os.pidfd_open(copy)
    while end not in (seen := select.select([connection, end, owner], [], [])[0]):
        received = connection.recv(16) if connection in seen else b""
        for number in received or [signal.SIGKILL]:
            # A session without a terminal ignores SIGTSTP.
            os.kill(copy, signal.SIGSTOP if number == signal.SIGTSTP else number)
        if not received:
            break
    return os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])


def _be_copy(
    fds: list[int],
    arguments: list[str],
    environ: dict[str, str],
    cwd: str,
    numbers: list[int],
    ignored: list[int],
    cpus: list[int],
) -> None:
    """Become the process that the client was asked to be, and end."""
    os.setsid()  # so that its processes can be ended
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 600) for fd in fds]  # out of the way
    for fd in fds:
        os.close(fd)
    for number, fd in zip(numbers, high, strict=True):
        os.dup2(fd, number)
        os.close(fd)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for each in ignored:
        signal.signal(each, signal.SIG_IGN)
    os.sched_setaffinity(0, cpus)
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()
    os.chdir(cwd)
    _start_as_python_does()
    code = 1
    try:
        _run(arguments)
        code = 0
    except SystemExit as end:
        code = _exit_code(end)
    except BaseException as error:
        _report(error)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    # Without Python's end, in which threads of gloo may abort: see at_exit.
    os._exit(code)


def _start_as_python_does() -> None:
    """What Python, NumPy and PyTorch do as they start, with the variables of this process."""
    import numpy as np
    import torch

    random.seed()
    np.random.seed()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS") or len(os.sched_getaffinity(0))))
    added = os.environ.get("PYTHONPATH", "").split(":")
    sys.path[:] = [*filter(None, added), *(path for path in sys.path if path not in ("", REPOSITORY, FOLDER))]
    sys.executable = f"{FOLDER}/bin/python"
    # torchrun asks for the module of each call; without an answer, `inspect` looks through all, for seconds.
    for file in ("<frozen runpy>", "<string>", __file__):
        inspect.modulesbyfile[file] = inspect.modulesbyfile[str(Path.cwd() / file)] = "runpy"  # type: ignore[attr-defined]
    if os.environ.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
    if os.environ.get("PYTHONFAULTHANDLER"):
        faulthandler.enable()


def _run(arguments: list[str]) -> None:
    """Run `SCRIPT ...`, `-m MODULE ...` or `-c CODE ...`."""
    first, *rest = arguments
    if first == "-m":
        sys.argv, name = rest, rest[0]
        sys.path.insert(0, str(Path.cwd()))
        sys.modules.pop(name, None)  # else runpy warns
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv = ["-c", *rest[1:]]
        sys.path.insert(0, "")
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(rest[0], main.__dict__)  # noqa: S102
    else:
        sys.argv = arguments
        sys.path.insert(0, str(Path(first).resolve().parent))
        runpy.run_path(first, run_name="__main__")


def _exit_code(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return (end.code or 0) & 255
    sys.stderr.write(f"{end.code}\n")
    return 1


def _report(error: BaseException) -> None:
    """Print an error without the calls of this file; ^C ends the process as it ends Python."""
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>"):
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)
    if isinstance(error, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    for module in IMPORTED:
        importlib.import_module(module)
    FOLDER = sys.argv[1]
    inspect.getmodule(inspect.currentframe())  # it remembers all modules
    serve(f"{FOLDER}/socket", os.pidfd_open(int(sys.argv[2])))
