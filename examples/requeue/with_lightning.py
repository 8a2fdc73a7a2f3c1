"""Lightning: a callback saves after the same step on all ranks; Lightning's own requeue is switched off."""

import os
import signal
import sys
import time
from pathlib import Path

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.plugins.environments import SLURMEnvironment

CHECKPOINT, STEPS = Path("lightning.ckpt"), int(os.environ.get("STEPS", "60"))
EVERY = 2  # steps; 10 or more where a step takes milliseconds, because the answer is read from the GPU


class SaveBeforeTheLimit(Callback):
    """On USR2, save and exit. The ranks reduce their flags after the same steps."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGUSR2, self._note)

    def _note(self, *_: object) -> None:
        self.asked = True

    def on_train_start(self, trainer: Trainer, *_: object) -> None:
        if trainer.is_global_zero:
            print(f"starts at step {trainer.global_step}", flush=True)

    def on_train_batch_end(self, trainer: Trainer, *_: object) -> None:
        if trainer.global_step % EVERY:
            return
        if trainer.strategy.reduce_boolean_decision(self.asked, all=False):
            trainer.save_checkpoint(CHECKPOINT)  # all ranks must call it
            if trainer.is_global_zero:
                Path(os.environ["REQUEUE_FILE"]).write_text(str(trainer.global_step))
            sys.exit(75)


class Model(LightningModule):
    """Replace it with your own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch: torch.Tensor, _index: int) -> torch.Tensor:
        time.sleep(1)
        return self.layer(batch).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1)


callback = SaveBeforeTheLimit()  # before the Trainer, which takes long to start
trainer = Trainer(
    devices=int(os.environ["SLURM_NTASKS_PER_NODE"]),
    num_nodes=int(os.environ["SLURM_NNODES"]),
    plugins=[SLURMEnvironment(auto_requeue=False)],
    max_steps=STEPS,
    callbacks=[callback],
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
)
data = torch.utils.data.DataLoader(torch.ones(4096, 4), batch_size=4)
trainer.fit(Model(), data, ckpt_path=str(CHECKPOINT) if CHECKPOINT.exists() else None)
if trainer.is_global_zero:
    print(f"finished at step {trainer.global_step}", flush=True)
if torch.distributed.is_initialized():
    torch.distributed.destroy_process_group()  # Lightning does so for NCCL only; gloo may abort at the exit
