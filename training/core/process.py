"""One process among those of the launch: who it is, what it says, and how all of them agree."""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from typing import NoReturn, TypeVar

import torch
import torch.distributed as dist

from .config import Config

T = TypeVar("T")


@dataclass(frozen=True)
class Process:
    """Who this process is: its rank of `world_size`, its number on its node, and what it computes on."""

    rank: int
    world_size: int
    local_rank: int
    device: torch.device


def join(config: Config) -> Process:
    """Meet the other ranks, as the launcher's variables describe them; without a launcher, be alone."""
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    device = _device(config, local_rank)
    timeout = timedelta(seconds=config.start_timeout)
    store = _meet(rank, world_size, timeout)
    backend, bound = ("nccl", device) if device.type == "cuda" else ("gloo", None)
    dist.init_process_group(backend, store=store, rank=rank, world_size=world_size, device_id=bound)
    return Process(rank, world_size, local_rank, device)


def say(line: str) -> None:
    """Print one line in one write, so that the lines of many ranks do not run into each other."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def begin(process: Process, config: Config) -> None:
    """Start a rank, once the process group exists: announce it, share the CPUs, refuse a wrong request."""
    host = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    rank = f"rank {process.rank}/{process.world_size} local_rank {process.local_rank}"
    device = "cpu" if process.device.type == "cpu" else str(process.device)
    say(f"{rank} host {host} device {device}")
    _share_cpus()
    if config.tf32:
        torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True  # all batches but the last of a test have one size
    agree(_fault(process, config))


def gather(value: T) -> list[T]:
    """Return every rank's `value`, in the order of ranks; returns only when every rank has come this far."""
    if not dist.is_initialized():
        return [value]
    values = [value] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def agree(error: str | None) -> None:
    """Go on only if no rank has an `error`; otherwise all ranks stop together, and rank 0 says why."""
    errors = [each for each in gather(error) if each]
    if errors:
        _stop(errors[0])


def leave(config: Config, status: int = 0) -> None:
    """Leave the process group when all have come to their end, and end this rank if `status` is not 0."""
    if dist.is_initialized():
        gather(None)
        dist.destroy_process_group()
    if config.strategy == "fsdp":
        # DTensor's caches keep the group, and with it gloo's threads: one of them that asks for Python's lock
        # when Python has begun to end aborts the process. So Python does not get that far.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    if status:
        raise SystemExit(status)


@contextmanager
def out_of_memory_explained(process: Process) -> Iterator[None]:
    """Say what to lower where a GPU's memory does not suffice."""
    try:
        yield
    except torch.OutOfMemoryError:
        refuse(
            f"rank {process.rank} ran out of memory on {process.device}. Do each step in more parts "
            "(--accumulate 2 or more), or lower --batch-size, or use --precision bf16 or --strategy fsdp."
        )


def refuse(error: str) -> NoReturn:
    """End this rank with one line that a person can act on."""
    sys.stderr.write(f"error: {error}\n")
    sys.stderr.flush()
    raise SystemExit(2)


def _stop(error: str) -> NoReturn:
    if not dist.is_initialized() or dist.get_rank() == 0:
        sys.stderr.write(f"error: {error}\n")
        sys.stderr.flush()
    # A launcher kills the other ranks as soon as one fails: none leaves before the reason is out.
    gather(None)
    if dist.is_initialized():
        dist.destroy_process_group()
    raise SystemExit(2)


def _device(config: Config, local_rank: int) -> torch.device:
    if config.device == "cpu" or (config.device == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    found = torch.cuda.device_count()
    if local_rank >= found:
        refuse(
            f"local rank {local_rank} has no GPU: it sees {found}. Ask Slurm for a GPU for each rank on a "
            "node, start no more ranks than there are GPUs, or use --device cpu."
        )
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    return device


def _meet(rank: int, world_size: int, timeout: timedelta) -> dist.Store:
    """Wait until every rank is there; say which are not when the time is up."""
    if "RANK" not in os.environ:
        return dist.HashStore()  # type: ignore[attr-defined,no-any-return]
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    # torchrun, and accelerate's launcher, listen there themselves.
    listens = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    try:
        store = dist.TCPStore(address, port, None, listens, timeout, wait_for_workers=False)
    except (dist.DistNetworkError, dist.DistStoreError):
        refuse(
            f"rank {rank}: nobody answers at {address}:{port}, where rank 0 should be. See the log of rank 0."
        )
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    _roll_call(dist.PrefixStore(f"roll call {attempt}", store), rank, world_size, timeout)
    return dist.PrefixStore(f"group {attempt}", store)


def _roll_call(store: dist.Store, rank: int, world_size: int, timeout: timedelta) -> None:
    ranks = [str(each) for each in range(world_size)]
    store.set(str(rank), "here")
    try:
        store.wait(ranks, timeout)
    except dist.DistStoreError:
        missing = [each for each in ranks if not store.check([each])]
        refuse(
            f"of {world_size} ranks, {', '.join(missing)} did not start within {timeout.seconds} s. "
            "Look for their errors further up, or wait longer with --start-timeout."
        )


def _fault(process: Process, config: Config) -> str | None:
    world_size = process.world_size
    size, parts = config.global_batch_size(world_size), world_size * config.accumulate
    if size % parts:
        nearest = max(size // parts, 1) * parts
        times = f", {config.accumulate} times each" if config.accumulate > 1 else ""
        return (
            f"--batch-size {size} does not divide over {world_size} ranks{times}. Use --batch-size {nearest}."
        )
    if config.tensorboard and find_spec("tensorboard") is None:
        return "tensorboard, which --tensorboard needs, is not installed. Install it: pip install tensorboard"
    if config.tensorboard and config.run_dir is None:
        return "--tensorboard writes into --run-dir, and there is none. Add --run-dir DIR."
    if config.crash_rank is not None and config.crash_rank >= world_size:
        return f"--crash-rank {config.crash_rank} is not a rank. The last one is {world_size - 1}."
    return None


def _share_cpus() -> None:
    # Slurm and OMP_NUM_THREADS may promise more CPUs than there are, and ranks may share those there are:
    # so count the ranks on this machine that may use the very same ones.
    mine = (socket.gethostname(), sorted(os.sched_getaffinity(0)))
    share = len(mine[1]) // gather(mine).count(mine)
    torch.set_num_threads(max(1, min(torch.get_num_threads(), share)))
