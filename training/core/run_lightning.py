"""Training with Lightning, started by srun as one task per rank, or in one process."""

from typing import Any

from lightning import LightningModule
from torch import Tensor

from .checkpoint import Position, Shelf, common_state, read_file, restore_common, restore_random, write_file
from .config import Config
from .data import Loaders, make_loaders
from .feed import Batch, Feed
from .leave import Watch
from .loop import crash_if_asked, seed_ranks, smoothed_loss
from .measure import Meter, Score
from .models import build_model
from .optimize import build_optimizer, build_scheduler
from .process import Process, begin, join, leave, out_of_memory_explained
from .report import Reporter
from .trainer import be_quiet, make_trainer, name_ranks_as_slurm_does
from .wrap import set_sync, sharded, share_buffers, without_buffers


def run(config: Config) -> None:
    """Train with `config`, on the devices and nodes of the Slurm step."""
    be_quiet()
    name_ranks_as_slurm_does()
    process = join(config)
    begin(process, config)
    reporter = Reporter(process, config)
    classifier = Classifier(process, config, make_loaders(process, config), reporter)
    with out_of_memory_explained(process):
        make_trainer(process, config).fit(classifier, ckpt_path=classifier.latest, weights_only=True)
    reporter.end(classifier.model)
    leave(config)


class Classifier(LightningModule):
    """The shared model, data and metrics in Lightning's hooks."""

    def __init__(self, process: Process, config: Config, loaders: Loaders, reporter: Reporter) -> None:
        super().__init__()
        self.process, self.config = process, config
        self.loaders, self.reporter = loaders, reporter
        self.model = build_model(config)
        self.shelf = Shelf(process, config)
        folder = self.shelf.find()
        self.latest = folder / "lightning" if folder else None
        self.state = read_file(folder / "state.pt") if folder else None
        self.position = Position()
        self.meter: Meter | None = None

    def configure_model(self) -> None:
        """Shard the weights, for `--strategy fsdp`."""
        if self.config.strategy == "fsdp" and not hasattr(self.model, "set_requires_gradient_sync"):
            sharded(self.model)

    def train_dataloader(self) -> Feed:
        """Return this rank's part of the training batches."""
        return self.loaders.train

    def val_dataloader(self) -> Feed:
        """Return this rank's part of the test batches."""
        return self.loaders.test

    def configure_optimizers(self) -> dict[str, Any]:
        """Return the shared optimizer and the learning rate of each step."""
        optimizer = build_optimizer(self.model, self.config, self.process.world_size)
        steps = len(self.loaders.train) // self.config.accumulate
        scheduler = build_scheduler(optimizer, self.config, steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def on_fit_start(self) -> None:
        """Restore the state that Lightning's checkpoint does not contain; stop if the run is finished."""
        if self.state:
            self.position = restore_common(self.state, self.reporter, self.process, self.config)

    def on_train_start(self) -> None:
        """Initialize or restore this rank's random numbers."""
        seed_ranks(self.process, self.config)
        without_buffers(self.trainer.strategy.model)
        if self.state:
            restore_random(self.state, self.process)
        self.watch = Watch(self.process, self.config)  # after Lightning has set its handler of SIGTERM
        self.trainer.should_stop = self.reporter.finished

    def on_train_epoch_start(self) -> None:
        """Select the order of the data, unless the feed continues within an epoch."""
        self.loaders.train.batches.set_epoch(self.current_epoch)

    def training_step(self, batch: Batch, number: int) -> Tensor:
        """Return the mean loss of this rank's part of a batch."""
        batches = self.current_epoch * len(self.loaders.train) + number
        crash_if_asked(self.process, self.config, batches)
        if self.meter is None:
            warm = self.current_epoch > self.position.epoch
            self.meter = Meter(self.device, (0.0,) * 3 if warm else self.position.sums, warm)
        if (
            self.config.strategy == "fsdp"
        ):  # Lightning itself would synchronize the ranks after each part of a step
            set_sync(self.model, (number + 1) % self.config.accumulate == 0)
        images, labels = batch
        logits = self.model(images)
        loss = smoothed_loss(logits, labels, self.config)
        self.meter.add(logits, labels, loss)
        return loss

    def on_train_batch_end(self, _outputs: Any, _batch: Batch, number: int) -> None:
        """After a complete step, check whether to stop."""
        done = number + 1
        if done % self.config.accumulate or done == len(self.loaders.train) or self.meter is None:
            return
        if self.watch.time_to_leave():
            self._save(Position(self.current_epoch, done, self.meter.totals()))
            self.watch.go()

    def on_validation_epoch_start(self) -> None:
        """Finish the training metrics, and start the test metrics."""
        assert self.meter is not None  # noqa: S101 (there is no validation without training)
        self.train_score: Score = self.meter.score()
        share_buffers(self.model)
        self.meter = Meter(self.device)

    def validation_step(self, batch: Batch, _: int) -> None:
        """Add this rank's part of a test batch."""
        images, labels = batch
        self.meter.add(self.model(images), labels)  # type: ignore[union-attr]

    def on_validation_epoch_end(self) -> None:
        """Report the epoch."""
        lr = self.trainer.optimizers[0].param_groups[0]["lr"]
        self.reporter.add(self.train_score, self.meter.score(), lr)  # type: ignore[union-attr]
        self.meter = None

    def on_train_epoch_end(self) -> None:
        """Save, and stop if the target is reached or the job is about to end."""
        self._save(Position(self.current_epoch + 1))
        self.trainer.should_stop = self.reporter.finished
        if not self.reporter.finished and self.watch.time_to_leave(at_once=True):
            self.watch.go()

    def _save(self, position: Position) -> None:
        if self.config.run_dir is None:
            return
        state = common_state(position, self.reporter, self.process, self.config)
        partial = self.shelf.partial(position)
        if self.process.rank == 0:
            partial.mkdir(exist_ok=True)
            write_file(partial / "state.pt", state)
        self.trainer.save_checkpoint(partial / "lightning")
        self.shelf.publish(partial)
