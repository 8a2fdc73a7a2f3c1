"""Checkpoints that are complete or absent, and that any number of ranks can continue from."""

import os
import random
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from ranks import Ranks


class Checkpoints:
    """The checkpoints of a run: folders, renamed when complete. The file `latest` names the current one."""

    def __init__(self, folder: Path | None, ranks: "Ranks", keep: int = 1) -> None:
        """`keep`: how many of the newest to keep, besides the best one, which the file `best` names."""
        self.folder, self.ranks, self.keep = folder, ranks, keep
        if folder and ranks.rank == 0:
            folder.mkdir(parents=True, exist_ok=True)

    def find(self) -> Path | None:
        """Return the latest checkpoint, or None. All ranks must call this."""
        if self.folder is None:
            return None
        pointer = self.folder / "latest"
        # Only rank 0 reads it: the file system's cache of another node may be stale.
        name = self.ranks.gather(
            pointer.read_text().strip() if self.ranks.rank == 0 and pointer.exists() else None
        )[0]
        if name is None:
            return None
        unseen = (
            f"rank {self.ranks.rank} does not see {self.folder / name}. Use a --run-dir that all ranks share."
        )
        self.ranks.agree(None if appears(self.folder / name) else unseen)
        return self.folder / name

    @contextmanager
    def new(self, name: str, best: bool = False) -> Iterator[Path]:
        """Give the ranks a folder to write to, then make it the latest. All ranks must call this.

        `best`: keep it until another is better.
        """
        whole = self.folder / f"checkpoint-{name}"
        partial = whole.with_suffix(".partial")
        if self.ranks.rank == 0:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
        self.ranks.gather(None)
        torch.save(random_state(), partial / f"random-{self.ranks.rank}.pt")
        flush(partial / f"random-{self.ranks.rank}.pt")  # rank 0 cannot flush what another node has written
        yield partial
        self.ranks.gather(None)  # all ranks have written their part
        if self.ranks.rank == 0:
            shutil.rmtree(whole, ignore_errors=True)
            for path in (*partial.rglob("*"), partial):
                flush(path)
            partial.rename(whole)
            flush(self.folder)
            write(whole.with_name("latest"), whole.name + "\n")
            if best:
                write(whole.with_name("best"), whole.name + "\n")
            self._remove_old()

    def _remove_old(self) -> None:
        marker = self.folder / "best"
        best = marker.read_text().strip() if marker.exists() else ""
        found = sorted((path for path in self.folder.glob("checkpoint-*")), key=age)
        for path in found:
            if path.suffix or (path not in found[-self.keep :] and path.name != best):
                shutil.rmtree(path, ignore_errors=True)

    def restore_random(self, folder: Path, world_size: int) -> None:
        """Restore this rank's random numbers, unless the number of ranks has changed."""
        if world_size == self.ranks.world_size:
            set_random_state(read(folder / f"random-{self.ranks.rank}.pt"))


def age(checkpoint: Path) -> list[int]:
    """Return epoch and batch of a checkpoint; what is not complete comes first."""
    return [] if checkpoint.suffix else [int(number) for number in checkpoint.name.split("-")[1:]]


def finite(tensors: Iterable[torch.Tensor]) -> bool:
    """Return whether none of the numbers, or of this rank's shards of them, is NaN or infinite."""
    parts = (each.to_local() if hasattr(each, "to_local") else each for each in tensors)
    return all(bool(each.isfinite().all()) for each in parts)


def read(path: Path) -> Any:
    """Read a file of `torch.save`. It contains data only, no code."""
    return torch.load(path, map_location="cpu", weights_only=True)


def write(path: Path, text: str) -> None:
    """Write a file under a temporary name, and rename it when it is complete and on the disk."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text)
    flush(partial)
    partial.replace(path)
    flush(path.parent)


def flush(path: Path) -> None:
    """Flush a file or a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def appears(path: Path, seconds: int = 60) -> bool:
    """Wait until a path exists: a shared file system may show it late."""
    for _ in range(10 * seconds):
        if path.exists():
            return True
        time.sleep(0.1)
    return False


def random_state() -> dict[str, Any]:
    """Return the state of all generators."""
    name, keys, *rest = np.random.get_state()
    state = {
        "python": random.getstate(),
        "numpy": (name, keys.tolist(), *rest),
        "torch": torch.get_rng_state(),
    }
    return state | ({"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_initialized() else {})


def set_random_state(state: dict[str, Any]) -> None:
    """Restore a `random_state`."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_initialized():
        torch.cuda.set_rng_state(state["cuda"])
