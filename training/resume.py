"""Checkpoints that are complete or absent, and that any number of ranks can continue from."""

import os
import random
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch


class Checkpoints:
    """The checkpoints of a run: folders, renamed when complete. The file `latest` names the current one."""

    def __init__(self, folder: Path | None, ranks: Any, keep: int = 1) -> None:
        """`ranks` has rank, world_size, gather and agree. `keep` of the newest stay, and the best."""
        self.folder, self.ranks, self.keep = folder, ranks, keep
        if folder and ranks.rank == 0:
            folder.mkdir(parents=True, exist_ok=True)

    def find(self) -> Path | None:
        """Return the latest checkpoint, or None. All ranks must call this."""
        if self.folder is None:
            return None
        pointer = self.folder / "latest"
        # Only rank 0 reads it: the file system's cache of another node may be stale.
        reads = self.ranks.rank == 0 and pointer.exists()
        name = self.ranks.gather(pointer.read_text().strip() if reads else None)[0]
        if name is None:
            return None
        path = self.folder / name
        unseen = f"rank {self.ranks.rank} does not see {path}. Use a --run-dir that all ranks share."
        self.ranks.agree(None if appears(path) else unseen)
        return path

    @contextmanager
    def new(self, name: str, best: bool = False) -> Iterator[Path]:
        """Give the ranks a folder to write to, then make it the latest (and `best`). All ranks call this."""
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
            for pointer in ("latest", "best") if best else ("latest",):
                write(whole.with_name(pointer), whole.name + "\n")
            for old in set(self.folder.glob("checkpoint-*")) - self._kept():
                shutil.rmtree(old, ignore_errors=True)

    def _kept(self) -> set[Path]:
        complete = self.folder.glob("checkpoint-*[0-9]")
        newest = sorted(complete, key=lambda path: [*map(int, path.name.split("-")[1:])])[-self.keep :]
        best = self.folder / "best"
        return {*newest, *([self.folder / best.read_text().strip()] if best.exists() else [])}

    def restore_random(self, folder: Path, world_size: int) -> None:
        """Restore this rank's random numbers, unless the number of ranks has changed."""
        if world_size == self.ranks.world_size:
            set_random_state(read(folder / f"random-{self.ranks.rank}.pt"))


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
    numpy = (name, keys.tolist(), *rest)
    state = {"python": random.getstate(), "numpy": numpy, "torch": torch.get_rng_state()}
    return state | ({"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_initialized() else {})


def set_random_state(state: dict[str, Any]) -> None:
    """Restore a `random_state`."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_initialized():
        torch.cuda.set_rng_state(state["cuda"])
