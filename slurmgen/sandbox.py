"""Call a function in a process of its own, with limits on time, memory and files.

It is for work on untrusted files, such as the templates of a cloned repository. The function and its
arguments are pickled, so they must come from slurmgen itself; the result is JSON.
"""

import faulthandler
import json
import pickle
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

MEMORY = 250_000_000
"Bytes, beyond what the interpreter and its files take at the start."
_TIMEOUT = 60.0
"Seconds until a process that does not use the CPU is ended; imports take long on some file systems."
# -I: nothing is imported from the working directory.
_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from slurmgen.sandbox import main; main()"


class Stopped(Exception):
    """The process reached a limit, or crashed; `log` has its standard error and its stack."""

    def __init__(self, fact: str, log: str) -> None:
        super().__init__(fact)
        self.log = log


def call(function: Callable[..., Any], *args: object, cpu_seconds: float) -> Any:
    """The result of a function, converted to JSON and back.

    Raises:
        Stopped: it took too long, or the process crashed.
        RuntimeError: it raised an exception.
    """
    command = [sys.executable, "-I", "-c", _PROGRAM, *sys.path]
    data = pickle.dumps((cpu_seconds, function, args))
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=_TIMEOUT, check=False)
    except subprocess.TimeoutExpired as error:
        raise Stopped(f"took longer than {_TIMEOUT:.0f} s", _decoded(error.stderr)) from None
    if done.returncode == 0:
        return json.loads(done.stdout)
    log = _decoded(done.stderr)
    if done.returncode > 0:
        raise RuntimeError(f"{function.__qualname__} failed in its own process:\n{log}")
    if done.returncode == -signal.SIGPROF:
        raise Stopped(f"took longer than {cpu_seconds:.1f} s of CPU time", log)
    raise Stopped(f"ended its process with {signal.Signals(-done.returncode).name}", log)


def _decoded(log: bytes | None) -> str:
    return (log or b"").decode(errors="replace")


def main() -> None:
    """The process that `call` starts."""
    # Python caches what it compiles in files, which cannot be written below the limits.
    import jinja2.debug
    import jinja2.sandbox  # noqa: F401

    cpu_seconds, function, args = pickle.load(sys.stdin.buffer)  # noqa: S301  (written by `call`)
    faulthandler.enable()
    # The kernel delivers the signal and faulthandler writes the stack even within one long operation.
    faulthandler.register(signal.SIGPROF, all_threads=False, chain=True)
    limit_memory()
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    json.dump(function(*args), sys.stdout)


def limit_memory() -> None:
    """Let this process take no more than `MEMORY` bytes, and write no file."""
    for limit, most in _limits().items():
        hard = resource.getrlimit(limit)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (value, value))


def _limits() -> dict[int, int]:
    limits = {resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0}
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except OSError:  # not Linux: elsewhere the address space cannot be limited reliably
        return limits
    return limits | {resource.RLIMIT_AS: pages * resource.getpagesize() + MEMORY}
