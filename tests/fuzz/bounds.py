"""What every reader owes: an answer or a SlurmgenError, in bounded time and memory."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from slurmgen.errors import SlurmgenError
from tests.fuzz.targets import Target

SECONDS = 5.0
"Of CPU time, for one input."
MEMORY = 1 << 30
"Bytes that one input may add."


class TooSlow(BaseException):
    """A reader took longer than `SECONDS`; no `except Exception` takes it."""


def check(target: Target, given: Any) -> None:
    """Let a reader read.

    Raises:
        BaseException: anything but a SlurmgenError is a fault.
    """
    with limits(), suppress(SlurmgenError):
        target.read(given)


@contextmanager
def limits() -> Iterator[None]:
    """Limits on CPU time and memory."""
    old = resource.getrlimit(resource.RLIMIT_AS)
    previous = signal.signal(signal.SIGPROF, _too_slow)
    resource.setrlimit(resource.RLIMIT_AS, (_used() + MEMORY, old[1]))
    # Again and again: what is raised in a callback of the garbage collector is lost.
    signal.setitimer(signal.ITIMER_PROF, SECONDS, 0.1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, old)
        signal.signal(signal.SIGPROF, previous)


def _used() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read().split()[0]) * resource.getpagesize()


def _too_slow(_signal: int, _frame: FrameType | None) -> None:
    raise TooSlow(f"it took more than {SECONDS:g} s of CPU time")
