"""Train a Lightning module on several GPUs. Slurm starts one task per GPU; Lightning finds its rank in Slurm's variables."""

import argparse
import os

import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset


class Classifier(LightningModule):
    """A small network. Replace it with your own module."""

    def __init__(self) -> None:
        super().__init__()
        self.network = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))

    def training_step(self, batch: list[torch.Tensor], _index: int) -> torch.Tensor:
        points, labels = batch
        loss = torch.nn.functional.cross_entropy(self.network(points), labels)
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters())


def dataset(size: int) -> TensorDataset:
    """Points in 16 dimensions, labelled by the sign of their sum. Replace this with your data."""
    points = torch.randn(size, 16, generator=torch.Generator().manual_seed(0))
    return TensorDataset(points, (points.sum(dim=1) > 0).long())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()
    trainer = Trainer(
        devices=int(os.environ.get("SLURM_NTASKS_PER_NODE", 1)),
        num_nodes=int(os.environ.get("SLURM_NNODES", 1)),
        max_epochs=args.epochs,
    )
    trainer.fit(Classifier(), DataLoader(dataset(4096), batch_size=64, shuffle=True))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()  # Lightning does so for NCCL only; gloo may abort at the exit


if __name__ == "__main__":
    main()
