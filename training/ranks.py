"""The ranks of a run: they meet, agree, exchange small values, and name one that is missing or hangs."""

import json
import math
import os
import re
import socket
import sys
import threading
import time
from argparse import Namespace
from datetime import timedelta
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from device import choose_device, prepare, settle, shared_gpu, topology
from options import fault

UNLIMITED = "data set-up"  # a download may take as long as it needs


def place() -> tuple[int, int, int]:
    """Return rank, world size and local rank, of torchrun or accelerate, else of the Slurm step, else alone.

    SLURM_STEP_NUM_TASKS exists only in a step of srun: `python` in a batch script is one rank.
    """
    if "RANK" not in os.environ and int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1:
        # In torchrun's names, which Lightning and accelerate read too.
        os.environ |= {
            "RANK": os.environ["SLURM_PROCID"],
            "WORLD_SIZE": os.environ["SLURM_STEP_NUM_TASKS"],
            "LOCAL_RANK": os.environ["SLURM_LOCALID"],
            "GROUP_RANK": os.environ["SLURM_NODEID"],
        }
        os.environ.setdefault("MASTER_ADDR", first_host(os.environ["SLURM_STEP_NODELIST"]))
        os.environ.setdefault("MASTER_PORT", str(20000 + int(os.environ["SLURM_JOB_ID"]) % 12000))
    rank, world_size, local_rank = (os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    return int(rank or 0), int(world_size or 1), int(local_rank or 0)


def first_host(hosts: str) -> str:
    """Return the first host of a Slurm list: `n[03-05,9],m1` is `n03`."""
    return re.sub(r"\[([^],-]+)[^]]*\]", r"\1", hosts).partition(",")[0]


def refuse(error: str, status: int = 2) -> NoReturn:
    """Exit with an error of one line."""
    sys.stderr.write(f"error: {error}\n")
    sys.stderr.flush()
    raise SystemExit(status)


class Ranks:
    """This process as one of the ranks. They exchange small values through the store, not the GPUs."""

    def __init__(self, options: Namespace) -> None:
        """Wait for the other ranks, join them in a process group, and select this rank's device."""
        self.rank, self.world_size, self.local_rank = place()
        self.host = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
        self.device = choose_device(options.device, self.local_rank)
        self.timeout = timedelta(seconds=options.start_timeout)
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = dist.PrefixStore(attempt, self.connect())
        self._call_roll(dist.PrefixStore("roll", store))
        self.store, self.calls = dist.PrefixStore("values", store), 0
        backend, bound = ("nccl", self.device) if self.device.type == "cuda" else ("gloo", None)
        self.heart = Heartbeat(self, options.step_timeout) if self.world_size > 1 else None
        self.beat("joining the process group")
        dist.init_process_group(
            backend,
            store=dist.PrefixStore("group", store),
            rank=self.rank,
            world_size=self.world_size,
            device_id=bound,
            # Longer than the heartbeat's, which names the rank.
            timeout=timedelta(seconds=600 + 2 * max(options.start_timeout, options.step_timeout)),
        )
        self.beat(UNLIMITED)

    def say(self, line: str) -> None:
        """Print a line in one write, so that lines of different ranks do not mix."""
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def gather(self, value: Any) -> list[Any]:
        """Return the `value` of every rank, which JSON must be able to hold. All ranks must call this.

        Waits as long as it takes: for a download, for example. The launcher ends a run that has lost a rank.
        """
        if self.world_size == 1:
            return [value]
        keys = [f"{self.calls}/{rank}" for rank in range(self.world_size)]
        self.store.set(keys[self.rank], json.dumps(value))
        self.store.wait(keys, timedelta(days=1))
        values = [json.loads(self.store.get(key)) for key in keys]
        if self.calls:  # every rank has read the values of the call before
            self.store.delete_key(f"{self.calls - 1}/{self.rank}")
        self.calls += 1
        return values

    def agree(self, error: str | None, status: int = 2) -> None:
        """Continue only if no rank has an `error`; otherwise rank 0 prints the first one, and all exit."""
        errors = [each for each in self.gather(error) if each]
        if errors:
            if self.rank == 0:
                sys.stderr.write(f"error: {errors[0]}\n")
                sys.stderr.flush()
            self.leave(status)

    def beat(self, phase: str) -> None:
        """Report progress: this rank enters `phase`."""
        if self.heart:
            self.heart.beat(phase)

    def leave(self, status: int = 0, at_once: bool = False) -> None:
        """Leave together: a launcher ends the other ranks as soon as one fails. Exits if `status` is not 0.

        `at_once` skips Python's clean-up, in which gloo's threads, kept by DTensor's caches, can abort.
        """
        if self.heart:
            self.heart.over.set()
            self.gather(None)
            self._let_rank_0_leave_last()
        dist.destroy_process_group()
        sys.stdout.flush()
        if at_once:
            os._exit(status)
        if status:
            raise SystemExit(status)

    def _let_rank_0_leave_last(self) -> None:
        if self.rank:
            self.store.set(f"left/{self.rank}", "")
        else:  # the store may be its own
            self.store.wait([f"left/{rank}" for rank in range(1, self.world_size)], self.timeout)

    def connect(self, again: bool = False) -> dist.Store:
        """Return a connection to the store at MASTER_ADDR and MASTER_PORT."""
        if "RANK" not in os.environ:
            return dist.HashStore()
        missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
        if missing:
            refuse(f"RANK is set, but not {' and '.join(missing)}. Start with torchrun or srun, or set all.")
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        # torchrun and accelerate's launcher listen on this port themselves.
        listens = self.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True" and not again
        try:
            return dist.TCPStore(address, port, None, listens, self.timeout, wait_for_workers=False)
        except (dist.DistNetworkError, dist.DistStoreError):
            if listens:
                refuse(
                    f"rank 0 cannot listen on port {port}. Another process uses it: set another MASTER_PORT."
                )
            refuse(
                f"rank {self.rank}: no reply from {address}:{port}, the address of rank 0. See rank 0's log."
            )

    def _call_roll(self, store: dist.Store) -> None:
        names = [str(rank) for rank in range(self.world_size)]
        store.set(str(self.rank), "here")
        try:
            store.wait(names, self.timeout)
        except dist.DistStoreError:
            missing = ", ".join(name for name in names if not store.check([name]))
            refuse(
                f"of {self.world_size} ranks, {missing} did not start within {self.timeout.seconds} s. "
                "Look for their errors above, or raise --start-timeout."
            )


def start(options: Namespace) -> Ranks:
    """Join the other ranks, announce this one, and refuse options that cannot work, on all ranks."""
    ranks = Ranks(options)
    place = f"rank {ranks.rank}/{ranks.world_size} local_rank {ranks.local_rank}"
    ranks.say(f"{place} host {ranks.host} device {ranks.device}")
    ranks.agree(settle(options, ranks.device))
    ranks.agree(fault(options, ranks.world_size, ranks.device.type) or shared_gpu(ranks))
    prepare(options, ranks)
    torch.manual_seed(options.seed)  # all ranks initialize the same weights
    for line in topology(ranks) if options.topology else []:
        ranks.say(line) if ranks.rank == 0 else None
    return ranks


class Heartbeat:
    """A thread that ends the run if it makes no progress, and names the rank that the others wait for.

    It counts its own ticks, not the time, so that a suspended job is not ended when it continues.
    """

    def __init__(self, ranks: Ranks, seconds: int) -> None:
        self.ranks, self.seconds, self.over = ranks, seconds, threading.Event()
        self.known: set[str] = set()
        self.now: tuple[int, str, float] = (0, "start", math.inf)  # beats, phase, its limit in seconds
        # A connection of its own: a rank that waits for others blocks its connection.
        self.store = dist.PrefixStore("beats", ranks.connect(again=True))
        self._write(0)
        threading.Thread(target=self._watch, daemon=True).start()

    def beat(self, phase: str) -> None:
        """Report progress. The first stay in a phase, which may compile, has the time of the start."""
        start = max(self.ranks.timeout.seconds, self.seconds)
        limit = {UNLIMITED: math.inf, "checkpoint": 10.0 * start}.get(
            phase, self.seconds if phase in self.known else start
        )
        self.known.add(phase)
        self.now = (self.now[0] + 1, phase, limit)

    def _watch(self) -> None:
        seen = still = tick = 0
        try:
            while not self.over.wait(1):
                count, _, limit = self.now
                still, seen, tick = still + 1 if seen == count else 0, count, tick + 1
                self._write(tick)
                if still >= limit:
                    self._end(still)
        except dist.DistError:
            if not self.over.is_set():
                sys.stderr.write("error: lost the connection to the store of rank 0. See its log.\n")
                os._exit(1)

    def _write(self, tick: int) -> None:
        self.store.set(str(self.ranks.rank), json.dumps([*self.now[:2], self.ranks.host, tick]))

    def _end(self, seconds: int) -> None:
        self.store.set(f"ends/{self.ranks.rank}", "")
        if self.store.add("reports", 1) == 1:
            sys.stderr.write(f"error: no progress for {seconds} s: {self._slowest()}\n")
            sys.stderr.flush()
        else:
            time.sleep(5)  # as soon as one rank ends, a launcher ends the others
        os._exit(1)

    def _beats(self) -> dict[str, Any]:
        ranks = [str(rank) for rank in range(self.ranks.world_size)]
        return {rank: json.loads(self.store.get(rank)) for rank in ranks if self.store.check([rank])}

    def _slowest(self) -> str:
        before = self._beats()
        time.sleep(3)
        beats = self._beats()
        for rank, (_, phase, name, tick) in beats.items():
            if before.get(rank, [0])[-1] == tick and not self.store.check([f"ends/{rank}"]):
                return f"rank {rank} on {name} does not respond ({phase})"
        least = min(count for count, *_ in beats.values())
        if least == max(count for count, *_ in beats.values()):
            return f"all ranks wait for each other ({self.now[1]}). Set NCCL_DEBUG=INFO to see the network."
        return ", ".join(
            f"rank {rank} on {name} makes no progress ({phase})"
            for rank, (count, phase, name, _) in beats.items()
            if count == least
        )
