"""The training of `single_gpu_to_ddp.py` with Lightning.

python frameworks_lightning.py                       # starts a second process itself
srun --ntasks-per-node=4 python frameworks_lightning.py   # one task per GPU
"""

import os

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCH, LR = 5, 64, 0.1


def points(samples=2048):
    """Points in the plane; the class is the quadrant."""
    x = torch.randn(samples, 2, generator=torch.Generator().manual_seed(0))
    return TensorDataset(x, (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long())


class Classifier(LightningModule):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 4))

    def on_train_epoch_start(self):
        self.correct = torch.zeros((), device=self.device)

    def training_step(self, batch):
        x, label = batch
        output = self.model(x)
        self.correct += (output.argmax(dim=1) == label).sum()
        return cross_entropy(output, label)

    def on_train_epoch_end(self):
        correct = self.trainer.strategy.reduce(self.correct, reduce_op="sum")
        samples = len(self.trainer.train_dataloader.dataset)
        self.print(f"epoch {self.current_epoch}: accuracy {correct.item() / samples:.3f}", flush=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=LR, momentum=0.9)


def main():
    seed_everything(0, verbose=False)
    trainer = Trainer(
        devices=int(os.environ.get("SLURM_NTASKS_PER_NODE", 2)),
        num_nodes=int(os.environ.get("SLURM_NNODES", 1)),
        strategy="ddp",
        max_epochs=EPOCHS,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    module = Classifier()
    trainer.fit(module, DataLoader(points(), batch_size=BATCH // trainer.world_size, shuffle=True))
    if trainer.is_global_zero:
        torch.save(module.model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
