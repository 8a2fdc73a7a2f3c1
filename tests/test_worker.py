"""Calls in other processes end within limits, and do not disturb those that come after them."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmgen.worker import Busy, Stopped, Workers


def process() -> bytes:
    return str(os.getpid()).encode()


def endless() -> bytes:
    while True:
        pass


def greedy() -> bytes:
    return bytes(2_000_000_000)


def crash() -> bytes:
    os.kill(os.getpid(), signal.SIGSEGV)
    return b""


def wrong() -> bytes:
    raise ValueError


def write(path: Path) -> bytes:
    path.write_text("x")
    return b""


def echo(data: bytes) -> bytes:
    return data


@pytest.fixture
def one() -> Iterator[Workers]:
    workers = Workers((process,), most=1, waiting=1, patience=0.01, seconds=5.0)
    yield workers
    workers.close()


def test_calls_use_the_same_process_which_is_not_this_one(one: Workers) -> None:
    assert one.call(process) == one.call(process) != process()


@pytest.mark.parametrize("function", [endless, greedy, crash])
def test_a_call_beyond_a_limit_is_stopped_and_the_next_one_succeeds(one: Workers, function: object) -> None:
    assert callable(function)
    with pytest.raises(Stopped):
        one.call(function)
    assert one.call(echo, b"x") == b"x"


def test_an_exception_is_a_bug_that_is_raised_with_its_traceback(one: Workers) -> None:
    with pytest.raises(RuntimeError, match="in wrong\n    raise ValueError"):
        one.call(wrong)


def test_a_call_writes_no_file(one: Workers, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="File too large"):
        one.call(write, tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == b""


@pytest.mark.parametrize("waiting", [0, 1])
def test_a_call_waits_a_limited_time_for_a_process(waiting: int) -> None:
    with pytest.raises(Busy):
        Workers((process,), most=0, waiting=waiting, patience=0.01).call(process)


def test_a_large_message_arrives_whole(one: Workers) -> None:
    data = os.urandom(3_000_000)
    assert one.call(echo, data) == data
