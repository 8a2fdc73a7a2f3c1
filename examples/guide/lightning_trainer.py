"""Lightning on one GPU or on all GPUs of a Slurm step, without a constant for either."""

import argparse
import os
import signal
import sys
from pathlib import Path

import torch
from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.plugins.environments import SLURMEnvironment
from torch.utils.data import DataLoader, Dataset, TensorDataset

IN_A_STEP = "SLURM_PROCID" in os.environ and os.environ.get("SLURM_JOB_NAME") not in ("bash", "interactive")
UNFINISHED = 75  # the exit status for which the batch script of `slurmgen render --requeue` requeues the job
CHECK_EVERY = 10  # steps: to read the answer from the GPU is to wait for it


class Points(LightningDataModule):
    """Points in 16 dimensions, labelled by the sign of their sum. Replace this with your data."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.file = folder / "points.pt"
        self.prepare_data_per_node = False  # the folder is shared: one rank of the job, not one of each node

    def prepare_data(self) -> None:
        """Download and unpack here. Only one process calls it, and the others wait; set no attribute here."""
        print("preparing data", flush=True)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        points = torch.randn(640, 16, generator=torch.Generator().manual_seed(0))
        torch.save((points, (points.sum(dim=1) > 0).long()), self.file)

    def setup(self, stage: str) -> None:
        """Read what prepare_data wrote. Each rank calls it."""
        points, labels = torch.load(self.file)
        self.train_set = TensorDataset(points[:512], labels[:512])
        self.val_set = TensorDataset(points[512:], labels[512:])

    def train_dataloader(self) -> DataLoader:
        return self._loader(self.train_set, shuffle=True)  # the Trainer inserts a DistributedSampler

    def val_dataloader(self) -> DataLoader:
        return self._loader(self.val_set, shuffle=False)

    def _loader(self, data: Dataset, shuffle: bool) -> DataLoader:
        return DataLoader(data, batch_size=32, shuffle=shuffle)  # for each rank: the global batch is larger


class Classifier(LightningModule):
    """A small network. Replace it with your own module."""

    def __init__(self) -> None:
        super().__init__()
        self.network = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))

    def training_step(self, batch: list[torch.Tensor], _index: int) -> torch.Tensor:
        points, labels = batch
        return torch.nn.functional.cross_entropy(self.network(points), labels)

    def validation_step(self, batch: list[torch.Tensor], _index: int) -> None:
        points, labels = batch
        right = (self.network(points).argmax(dim=1) == labels).float().mean()
        self.log("accuracy", right, sync_dist=True)  # without sync_dist: the mean of rank 0's batches

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


class SaveBeforeTheLimit(Callback):
    """On SIGUSR2, which Slurm sends before the time limit, save after the same step on all ranks. Exit."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint, self.asked = checkpoint, False
        signal.signal(signal.SIGUSR2, self._note)  # in the handler itself, a rank may be inside a collective

    def _note(self, *_: object) -> None:
        self.asked = True

    def on_train_batch_end(self, trainer: Trainer, *_: object) -> None:
        if trainer.global_step % CHECK_EVERY:
            return
        if trainer.strategy.reduce_boolean_decision(self.asked, all=False):
            trainer.save_checkpoint(self.checkpoint)  # all ranks must call it
            sys.exit(UNFINISHED)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--run-dir", type=Path, default=Path("runs/lightning"))
    args = parser.parse_args()

    seed_everything(0)
    checkpoints = args.run_dir / "checkpoints"
    trainer = Trainer(
        devices=int(os.environ["SLURM_NTASKS_PER_NODE"]) if IN_A_STEP else 1,
        num_nodes=int(os.environ["SLURM_NNODES"]) if IN_A_STEP else 1,
        plugins=[SLURMEnvironment(auto_requeue=False)] if IN_A_STEP else [],
        max_epochs=args.epochs,
        default_root_dir=args.run_dir,
        callbacks=[
            ModelCheckpoint(checkpoints, monitor="accuracy", mode="max", save_last=True),
            SaveBeforeTheLimit(checkpoints / "last.ckpt"),
        ],
        logger=False,
        enable_progress_bar=False,
    )
    rank = f"rank {trainer.global_rank}"
    print(
        f"{rank} of {trainer.world_size}: local rank {trainer.local_rank}, node {trainer.node_rank}",
        flush=True,
    )
    trainer.fit(Classifier(), Points(args.run_dir / "data"), ckpt_path="last")  # or from scratch
    accuracy = trainer.callback_metrics["accuracy"]
    print(f"{rank} accuracy {accuracy:.4f} after {trainer.global_step} steps", flush=True)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()  # Lightning does so for NCCL only; gloo may abort at the exit


if __name__ == "__main__":
    main()
