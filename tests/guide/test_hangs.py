"""The page on hangs: each way to wait for ever, ended by a timeout, with the message that it leaves."""

import re
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from tests.guide.running import GUIDE, run, run_ranks, torchrun
from tests.support.ports import free_port
from tests.support.ranks import Ended


def start(rank: int, address: str, at: int, seconds: str = "4", world_size: int = 2) -> Ended:
    env = {"RANK": str(rank), "WORLD_SIZE": str(world_size), "MASTER_ADDR": address, "MASTER_PORT": str(at)}
    return run(sys.executable, GUIDE / "hangs_start.py", "--timeout", seconds, env=env)


@pytest.fixture(scope="module")
def exercise() -> tuple[Ended, Ended]:
    """The two ranks of the exercise: rank 1 looks for rank 0 at another port."""
    first, second = free_port(), free_port()
    with ThreadPoolExecutor() as pool:
        zero = pool.submit(start, 0, "127.0.0.1", first)
        one = pool.submit(start, 1, "127.0.0.1", second)
        return zero.result(), one.result()


def test_with_two_ports_rank_0_waits_for_clients(exercise: tuple[Ended, Ended]) -> None:
    assert re.search(
        r"DistStoreError: Timed out after \d+ seconds waiting for clients\. 1/2 clients joined\.",
        exercise[0].err,
    )


def test_with_two_ports_rank_1_cannot_connect(exercise: tuple[Ended, Ended]) -> None:
    assert re.search(
        r"DistNetworkError: The client socket has timed out after 4000ms while trying to connect to "
        r"\(127\.0\.0\.1, \d+\)\.",
        exercise[1].err,
    )


def test_the_first_lines_of_the_two_ranks_show_the_two_ports(exercise: tuple[Ended, Ended]) -> None:
    zero, one = (re.search(r"meets at 127\.0\.0\.1:(\d+)", done.out) for done in exercise)
    assert zero
    assert one
    assert int(one[1]) != int(zero[1])


def test_with_one_port_both_ranks_connect() -> None:
    at = free_port()
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda rank: start(rank, "127.0.0.1", at, "60"), (0, 1)))
    assert [f"rank {rank} is connected to 2 ranks" in each.out for rank, each in enumerate(done)] == [
        True,
        True,
    ]


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_that_is_in_use_is_named(taken: int) -> None:
    assert re.search(
        r"DistNetworkError: The server socket has failed to listen on any local network address\. "
        rf"port: {taken}, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
        start(0, "127.0.0.1", taken, world_size=1).err,
    )


def test_a_host_that_does_not_resolve_ends_in_the_same_message_as_one_that_is_silent() -> None:
    done = start(1, "no-such-node.invalid", 20_000)
    assert "no-such-node.invalid:20000 (not resolvable: " in done.out
    assert "has timed out after 4000ms while trying to connect to (no-such-node.invalid, 20000)." in done.err


@pytest.fixture
def fault(tmp_path: Path) -> Callable[..., Ended]:
    """Runs a fault; those that end by themselves have time, because a machine may be busy."""

    def run(name: str, seconds: int = 100) -> Ended:
        asked = ("--fault", name, "--timeout", str(seconds))
        return run_ranks("hangs.py", *asked, cwd=tmp_path, grace=5)

    return run


def test_a_collective_on_rank_0_only_first_gives_wrong_sums(fault: Callable[..., Ended]) -> None:
    out = fault("rank-0-only").out
    assert "rank 0: the sum of accuracy is 1.5" in out
    assert "rank 1: the sum of gradient is 1.5" in out


def test_the_same_collectives_on_all_ranks_give_the_right_sums() -> None:
    out = torchrun("hangs.py", "--fault", "none", "--timeout", "100").out
    assert [
        f"rank {rank}: the sum of {what}" in out
        for rank in (0, 1)
        for what in ("accuracy is 0.5", "gradient is 2.0")
    ] == [True] * 4


MESSAGES = {
    "barrier-on-rank-0": r"Timed out waiting 20000ms for \w+ operation to complete",
    "uneven-batches": r"\[rank0\]: .*Timed out waiting 20000ms for recv operation to complete",
    "one-rank-stands-still": r"\[Rank 0\]: Ranks 1 failed to pass monitoredBarrier in 20000 ms",
}


@pytest.mark.parametrize(("name", "message"), MESSAGES.items())
def test_each_wait_ends_with_its_message(name: str, message: str, fault: Callable[..., Ended]) -> None:
    done = fault(name, 20)
    assert 1 in done.returncodes
    assert re.search(message, done.err)


def test_a_rank_that_leaves_closes_the_connections_of_the_others(fault: Callable[..., Ended]) -> None:
    assert re.search(r"Connection (?:closed|reset) by peer", fault("one-rank-leaves").err)


def test_detail_names_the_two_operations_that_do_not_match() -> None:
    detail = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}  # read when torch is imported
    err = torchrun("hangs.py", "--fault", "barrier-on-rank-0", "--timeout", "100", env=detail).err
    assert re.search(
        r"Detected mismatch between collectives on ranks\. Rank 0 is running collective: .*OpType=BARRIER",
        err,
    )


def test_the_default_timeouts_are_those_of_the_page() -> None:
    constants = pytest.importorskip("torch.distributed.constants")
    assert constants.default_pg_timeout == timedelta(minutes=30)
    assert constants.default_pg_nccl_timeout in (None, timedelta(minutes=10))
