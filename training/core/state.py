"""Saving and restoring a Learner: one file of one rank, or with FSDP, shards of all ranks."""

from typing import TYPE_CHECKING, Any

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from .checkpoint import Position, Shelf, common_state, read_file, restore_common, restore_random, write_file
from .config import Config
from .process import Process
from .report import Reporter

if TYPE_CHECKING:
    from .loop import Learner


def save(
    shelf: Shelf,
    learner: "Learner",
    position: Position,
    reporter: Reporter,
    process: Process,
    config: Config,
) -> None:
    """Save the complete training state. Every rank must call this after the same step."""
    state = common_state(position, reporter, process, config)
    state["scheduler"] = learner.scheduler.state_dict()
    state["scaler"] = learner.scaler.state_dict() if learner.scaler else {}
    partial = shelf.partial(position)
    if process.rank == 0:
        partial.mkdir(exist_ok=True)
    if config.strategy == "fsdp":
        dcp.save(_shards(learner), checkpoint_id=partial / "shards")
    else:
        state["model"], state["optimizer"] = learner.plain.state_dict(), learner.optimizer.state_dict()
    if process.rank == 0:
        write_file(partial / "state.pt", state)
    shelf.publish(partial)


def restore(
    shelf: Shelf, learner: "Learner", reporter: Reporter, process: Process, config: Config
) -> Position:
    """Restore the latest checkpoint, if any. Every rank must call this."""
    folder = shelf.find()
    if folder is None:
        return Position()
    state = read_file(folder / "state.pt")
    position = restore_common(state, reporter, process, config)
    if config.strategy == "fsdp":
        _load_shards(learner, folder / "shards")
    else:
        learner.plain.load_state_dict(state["model"])
        learner.optimizer.load_state_dict(state["optimizer"])
    restore_random(state, process)
    learner.scheduler.load_state_dict(state["scheduler"])
    if learner.scaler and state["scaler"]:
        learner.scaler.load_state_dict(state["scaler"])
    return position


def _shards(learner: "Learner") -> dict[str, Any]:
    """Return the state under names that are the same for any number of ranks."""
    model, optimizer = get_state_dict(learner.plain, learner.optimizer)
    return {"model": model, "optimizer": optimizer}


def _load_shards(learner: "Learner", folder: Any) -> None:
    state = _shards(learner)
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(
        learner.plain,
        learner.optimizer,
        model_state_dict=state["model"],
        optim_state_dict=state["optimizer"],
    )
