"""One process of the launch: its rank, its output, and agreement with the other ranks."""

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
    """The rank of this process, the world size, its local rank and its device."""

    rank: int
    world_size: int
    local_rank: int
    device: torch.device


def join(config: Config) -> Process:
    """Join the process group that the launcher's variables describe; without a launcher, a group of one."""
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    device = _device(config, local_rank)
    timeout = timedelta(seconds=config.start_timeout)
    store = _meet(rank, world_size, timeout)
    backend, bound = ("nccl", device) if device.type == "cuda" else ("gloo", None)
    dist.init_process_group(backend, store=store, rank=rank, world_size=world_size, device_id=bound)
    return Process(rank, world_size, local_rank, device)


def say(line: str) -> None:
    """Print one line in one write, so that lines of different ranks are not mixed."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def begin(process: Process, config: Config) -> None:
    """Start a rank in its process group: announce it, share the CPUs, and reject invalid options."""
    host = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    rank = f"rank {process.rank}/{process.world_size} local_rank {process.local_rank}"
    device = "cpu" if process.device.type == "cpu" else str(process.device)
    say(f"{rank} host {host} device {device}")
    _share_cpus()
    if config.tf32:
        torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True  # all batches except the last of a test have the same size
    agree(_fault(process, config))


def gather(value: T) -> list[T]:
    """Return the `value` of every rank, in the order of ranks. Waits for all ranks."""
    if not dist.is_initialized():
        return [value]
    values = [value] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def agree(error: str | None) -> None:
    """Continue only if no rank has an `error`; otherwise stop all ranks, and print the error on rank 0."""
    errors = [each for each in gather(error) if each]
    if errors:
        _stop(errors[0])


def leave(config: Config, status: int = 0) -> None:
    """Leave the process group after all ranks have finished, and exit if `status` is not 0."""
    if dist.is_initialized():
        gather(None)
        dist.destroy_process_group()
    if config.strategy == "fsdp":
        # DTensor's caches keep the group and gloo's threads. A thread that requests Python's lock during
        # shutdown aborts the process, so skip the shutdown.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    if status:
        raise SystemExit(status)


@contextmanager
def out_of_memory_explained(process: Process) -> Iterator[None]:
    """Explain which options reduce memory if the GPU runs out of it."""
    try:
        yield
    except torch.OutOfMemoryError:
        refuse(
            f"rank {process.rank} ran out of memory on {process.device}. Split each step "
            "(--accumulate 2 or more), or lower --batch-size, or use --precision bf16 or --strategy fsdp."
        )


def refuse(error: str) -> NoReturn:
    """Exit with status 2 and an error of one line."""
    sys.stderr.write(f"error: {error}\n")
    sys.stderr.flush()
    raise SystemExit(2)


def _stop(error: str) -> NoReturn:
    if not dist.is_initialized() or dist.get_rank() == 0:
        sys.stderr.write(f"error: {error}\n")
        sys.stderr.flush()
    # A launcher kills the other ranks as soon as one fails: wait until the error is printed.
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
            f"local rank {local_rank} has no GPU: {found} visible. Request one GPU per rank on "
            "each node, start fewer ranks, or use --device cpu."
        )
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    return device


def _meet(rank: int, world_size: int, timeout: timedelta) -> dist.Store:
    """Wait until all ranks have started; after the timeout, name the missing ones."""
    if "RANK" not in os.environ:
        return dist.HashStore()  # type: ignore[attr-defined,no-any-return]
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    # torchrun and accelerate's launcher listen on this port themselves.
    listens = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    try:
        store = dist.TCPStore(address, port, None, listens, timeout, wait_for_workers=False)
    except (dist.DistNetworkError, dist.DistStoreError):
        refuse(f"rank {rank}: no reply from {address}:{port}, the address of rank 0. See the log of rank 0.")
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
            "Look for their errors above, or raise --start-timeout."
        )


def _fault(process: Process, config: Config) -> str | None:
    world_size = process.world_size
    size, parts = config.global_batch_size(world_size), world_size * config.accumulate
    if size % parts:
        nearest = max(size // parts, 1) * parts
        times = f", {config.accumulate} times each" if config.accumulate > 1 else ""
        return (
            f"--batch-size {size} is not divisible by {world_size} ranks{times}. Use --batch-size {nearest}."
        )
    if config.tensorboard and find_spec("tensorboard") is None:
        return "tensorboard, which --tensorboard needs, is not installed. Install it: pip install tensorboard"
    if config.tensorboard and config.run_dir is None:
        return "--tensorboard needs --run-dir. Add --run-dir DIR."
    if config.crash_rank is not None and config.crash_rank >= world_size:
        return f"--crash-rank {config.crash_rank} is not a rank. The last one is {world_size - 1}."
    return None


def _share_cpus() -> None:
    # Slurm and OMP_NUM_THREADS may name more CPUs than exist, and ranks may share CPUs: count the ranks on
    # this machine with the same CPU affinity.
    mine = (socket.gethostname(), sorted(os.sched_getaffinity(0)))
    share = len(mine[1]) // gather(mine).count(mine)
    torch.set_num_threads(max(1, min(torch.get_num_threads(), share)))
