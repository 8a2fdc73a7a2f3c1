"""Checkpoints: complete or absent, usable by any number of ranks, found through the file `latest`."""

import os
import random
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .config import Config
from .process import Process, agree, gather
from .report import Reporter, write_whole

SAME = ("data", "model", "width", "accumulate", "seed", "limit", "strategy", "optimizer", "epochs")


@dataclass(frozen=True)
class Position:
    """The progress of a run: `batch` batches of `epoch` are done, with the `sums` of measure.Meter."""

    epoch: int = 0
    batch: int = 0
    sums: tuple[float, ...] = (0.0, 0.0, 0.0)


class Shelf:
    """The checkpoints of a run. The file `latest` contains the name of the current one.

    A checkpoint is written under a temporary name, renamed, and then entered in `latest`, which therefore
    always names a complete one. This works for files, and for folders that all ranks of FSDP write.
    """

    def __init__(self, process: Process, config: Config) -> None:
        self.process, self.folder = process, config.run_dir
        if self.folder and process.rank == 0:
            self.folder.mkdir(parents=True, exist_ok=True)

    def find(self) -> Path | None:
        """Return the latest checkpoint or None, the same on every rank. Every rank must call this."""
        if self.folder is None:
            return None
        pointer = self.folder / "latest"
        name = pointer.read_text().strip() if pointer.exists() else None
        names = gather(name)
        unlike = f"not all ranks see the same checkpoint in {self.folder}. Use a --run-dir that they share."
        agree(unlike if len(set(names)) > 1 else None)
        return self.folder / name if name else None

    def partial(self, position: Position) -> Path:
        """Return the temporary path of a new checkpoint."""
        assert self.folder is not None  # noqa: S101 (called only for runs with a folder)
        return self.folder / f"checkpoint-{position.epoch}-{position.batch}.partial"

    def publish(self, partial: Path) -> None:
        """Make a complete checkpoint the latest, and remove the others. Every rank must call this."""
        gather(None)  # wait until all ranks have written their part
        if self.process.rank == 0:
            whole = partial.with_suffix("")
            _remove(whole)
            partial.rename(whole)
            write_whole(whole.with_name("latest"), whole.name + "\n")
            for other in set(whole.parent.glob("checkpoint-*")) - {whole}:
                _remove(other)


def write_file(path: Path, value: object) -> None:
    """Write `value` for `read_file`, and flush it to the disk."""
    with path.open("wb") as file:
        torch.save(value, file)
        file.flush()
        os.fsync(file.fileno())


def read_file(path: Path) -> Any:
    """Read a file of `write_file`. It contains data only, no code."""
    return torch.load(path, map_location="cpu", weights_only=True)


def common_state(position: Position, reporter: Reporter, process: Process, config: Config) -> dict[str, Any]:
    """Return the state that checkpoints of all frameworks contain. Every rank must call this."""
    return {
        "position": asdict(position),
        "history": [asdict(each) for each in reporter.history],
        "seconds": reporter.seconds,
        "random": gather(_random_state()),
        "made_with": _made_with(process, config),
    }


def restore_common(state: dict[str, Any], reporter: Reporter, process: Process, config: Config) -> Position:
    """Restore `common_state` except the random states, and return the position."""
    then, now = state["made_with"], _made_with(process, config)
    for key, value in then.items():
        if now[key] != value:
            flag = f"--{key.replace('_', '-')}"
            agree(f"the checkpoint was made with {flag} {value}, not {now[key]}. Use another --run-dir.")
    reporter.resume(state["history"], state["seconds"])
    return Position(**{**state["position"], "sums": tuple(state["position"]["sums"])})


def restore_random(state: dict[str, Any], process: Process) -> None:
    """Restore the random states of `common_state`, unless the number of ranks has changed."""
    if len(state["random"]) == process.world_size:
        _set_random_state(state["random"][process.rank])


def _made_with(process: Process, config: Config) -> dict[str, Any]:
    same = {key: getattr(config, key) for key in SAME}
    return {"task": config.task.name, "batch_size": config.global_batch_size(process.world_size), **same}


def _random_state() -> dict[str, Any]:
    name, keys, *rest = np.random.get_state()
    return {
        "python": random.getstate(),
        "numpy": (name, keys.tolist(), *rest),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None,
    }


def _set_random_state(state: dict[str, Any]) -> None:
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"].cpu())
    if state["cuda"] is not None and torch.cuda.is_initialized():
        torch.cuda.set_rng_state(state["cuda"].cpu())


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
