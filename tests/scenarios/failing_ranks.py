"""A rank that fails in the third step; the others then lose their connections to it.

The way of failing is that of the array's task: `failing_ranks.py RANK WAY...`.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable


def fails() -> bool:
    rank = os.environ.get("RANK") or os.environ.get("SLURM_PROCID")
    return rank == sys.argv[1]


def fail() -> None:
    if not fails():
        return
    if WAY == "exception":
        raise ValueError("loss is nan")
    if WAY == "exit-code":
        os._exit(3)
    os.kill(os.getpid(), getattr(signal, WAY))


def train_with_gloo() -> None:
    import torch
    from torch import distributed

    if "RANK" not in os.environ:
        os.environ.update(RANK=os.environ["SLURM_PROCID"], WORLD_SIZE=os.environ["SLURM_NTASKS"])
    distributed.init_process_group("gloo")
    for step in range(1000):
        if step == 3:
            fail()
        distributed.all_reduce(torch.ones(10))


def train_with_lightning() -> None:
    import lightning
    import torch

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
            if index == 3:
                fail()
            return self.layer(batch).mean()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.1)

    size = {"devices": int(os.environ["SLURM_NTASKS_PER_NODE"]), "num_nodes": int(os.environ["SLURM_NNODES"])}
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    data = torch.utils.data.DataLoader(torch.randn(400, 4), batch_size=4)
    lightning.Trainer(accelerator="cpu", strategy="ddp", max_epochs=2, **size, **quiet).fit(Model(), data)


def import_nothing() -> None:
    if fails():
        import no_such_module  # noqa: F401
    time.sleep(600)


def parse_arguments() -> None:
    if fails():
        argparse.ArgumentParser().parse_args(["--lrr", "3"])
    time.sleep(600)


OTHERS: dict[str, Callable[[], None]] = {"import": import_nothing, "arguments": parse_arguments}
LIGHTNING, _, WAY = sys.argv[2:][int(os.environ["SLURM_ARRAY_TASK_ID"])].rpartition(":")

if __name__ == "__main__":
    OTHERS.get(WAY, train_with_lightning if LIGHTNING else train_with_gloo)()
