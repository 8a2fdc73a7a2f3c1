"""Training with Lightning: as srun starts one task for each rank, or in one process without it."""

import logging
import os
import sys
import warnings
from typing import Any

import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.plugins.environments import SLURMEnvironment  # type: ignore[attr-defined]
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from .config import Config
from .data import Batch, Loaders, make_loaders
from .loop import crash_if_asked, seed_augmentation
from .measure import Meter, Result, Score, report_end, report_epoch
from .models import build_model, build_optimizer
from .process import Process, begin, leave


def run(config: Config) -> None:
    """Train as `config` says, on as many devices and nodes as srun started tasks for."""
    _quiet()
    trainer = make_trainer(config)
    classifier = Classifier(config)
    trainer.fit(classifier)
    report_end(process_of(trainer), config, classifier.result, classifier.model)
    leave()


def make_trainer(config: Config) -> Trainer:
    """Return a Trainer in the shape of the launch; it writes no logs and no checkpoints."""
    return Trainer(
        **_launch(),
        max_epochs=config.epochs,
        use_distributed_sampler=False,  # its own sampler would repeat test samples to fill up the ranks
        num_sanity_val_steps=0,
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=sys.stdout.isatty(),
    )


def process_of(trainer: Trainer) -> Process:
    """Return who this process is, in the trainer's words; right once the trainer has set up its strategy."""
    return Process(trainer.global_rank, trainer.world_size, trainer.local_rank, trainer.strategy.root_device)


class Classifier(LightningModule):
    """The shared model and data in Lightning's hooks; `result` is how the latest epoch went."""

    result: Result

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.model = build_model(config)

    def setup(self, stage: str) -> None:
        """Start this rank and load its data; no earlier hook of all ranks has the process group."""
        process = process_of(self.trainer)
        begin(process, self.config)
        self.loaders: Loaders = make_loaders(process, self.config)

    def train_dataloader(self) -> DataLoader[Batch]:
        """Return this rank's part of the training batches."""
        return self.loaders.train

    def val_dataloader(self) -> DataLoader[Batch]:
        """Return this rank's part of the test batches."""
        return self.loaders.test

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the shared optimizer."""
        return build_optimizer(self.model, self.config)

    def on_train_start(self) -> None:
        """Begin to draw the augmentation, differently on each rank."""
        seed_augmentation(process_of(self.trainer), self.config)

    def on_train_epoch_start(self) -> None:
        """Begin to measure an epoch."""
        crash_if_asked(process_of(self.trainer), self.config)
        self.meter = Meter(self.device)

    def training_step(self, batch: Batch, _: int) -> Tensor:
        """Return the mean loss of this rank's part of a batch."""
        images, labels = batch
        logits = self.model(images)
        self.meter.add(logits, labels)
        return cross_entropy(logits, labels)

    def on_validation_epoch_start(self) -> None:
        """End the measure of training, and begin that of testing."""
        self.train_score: Score = self.meter.score()
        self.meter = Meter(self.device)

    def validation_step(self, batch: Batch, _: int) -> None:
        """Count this rank's part of a test batch."""
        images, labels = batch
        self.meter.add(self.model(images), labels)

    def on_validation_epoch_end(self) -> None:
        """Tell how the epoch went."""
        self.result = Result(self.train_score, self.meter.score())
        report_epoch(process_of(self.trainer), self.config, self.current_epoch, self.result)


def _launch() -> dict[str, Any]:
    if not SLURMEnvironment.detect():
        return {"devices": 1}
    devices = int(os.environ.get("SLURM_NTASKS_PER_NODE", "1"))
    nodes = int(os.environ.get("SLURM_NNODES", "1"))
    return {
        "devices": devices,
        "num_nodes": nodes,
        "strategy": "ddp" if devices * nodes > 1 else "auto",
        # Whether to requeue is the job script's to decide, not each rank's on a signal.
        "plugins": [SLURMEnvironment(auto_requeue=False)],
    }


def _quiet() -> None:
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    logging.getLogger("lightning.fabric").setLevel(logging.WARNING)
    # It asks for workers, which data in memory do not need.
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    # Lightning's own use of what torch has renamed.
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")
