"""Train a classifier with Lightning: srun python 12_lightning.py, with one task per GPU."""

import argparse
import os

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_data(size: int, seed: int) -> TensorDataset:
    """Ten patterns with noise, labelled by pattern. Replace this with your data."""
    patterns = torch.randn(10, 64, generator=torch.Generator().manual_seed(0))
    rng = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (size,), generator=rng)
    return TensorDataset(patterns[labels] + 2 * torch.randn(size, 64, generator=rng), labels)


class Classifier(LightningModule):
    """All that the training needs to know of the model."""

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def validation_step(self, batch: list[torch.Tensor]) -> None:
        self.log("accuracy", (self(batch[0]).argmax(dim=1) == batch[1]).float().mean(), sync_dist=True)

    def on_validation_epoch_end(self) -> None:
        self.print(f"epoch {self.current_epoch}: accuracy {self.trainer.callback_metrics['accuracy']:.4f}")

    def configure_optimizers(self) -> tuple[list, list]:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()

    torch.manual_seed(0)
    train, test = make_data(8192, seed=1), make_data(1000, seed=2)
    loader = DataLoader(train, args.batch_size, shuffle=True, drop_last=True)
    test_loader = DataLoader(test, args.batch_size)

    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    model = Classifier(model)
    tasks, nodes = (int(os.environ.get(f"SLURM_{name}", 1)) for name in ("NTASKS_PER_NODE", "NNODES"))
    quiet = {f"enable_{part}": False for part in ("progress_bar", "model_summary")} | {"logger": False}
    trainer = Trainer(devices=tasks, num_nodes=nodes, max_epochs=args.epochs, num_sanity_val_steps=0, **quiet)
    trainer.fit(model, loader, test_loader)  # moves the model, wraps it, divides the data, saves each epoch
    if trainer.is_global_zero:
        torch.save(model.layers.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
