"""Train an image classifier with Lightning.

    srun --kill-on-bad-exit=1 --ntasks-per-node=4 python train_lightning.py --task cifar10  # one task per GPU

For your own data and model, change the two marked lines.
"""

import logging
import os
import sys
import warnings
from argparse import Namespace
from typing import Any

import torch
import torch.distributed as dist
from augment import augment_for
from data import Batch, Feed, Order
from device import count_flops, out_of_memory_explained
from images import load
from lightning import LightningModule, Trainer
from lightning.pytorch.plugins import MixedPrecision
from lightning.pytorch.plugins.environments import LightningEnvironment, TorchElasticEnvironment
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy
from models import build_model
from optimize import Schedule, build_optimizer, keep_weight_decay
from options import DDP, STRATEGY, check_options, global_batch_size, parse_options, recorded
from profiling import Profile
from ranks import Ranks, start
from report import Meter, Report, export
from resume import Checkpoints, read
from shard import shard
from stop import Stop
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import Dataset


def main() -> None:
    """Train from the latest checkpoint, or from the start."""
    be_quiet()
    options = parse_options(DDP, STRATEGY, framework="lightning")
    ranks = start(options)
    train, val, test = load(options, ranks)  # your own: datasets of (image, label); `val` may be None
    model = build_model(options, ranks.device)  # your own: a module with equal weights on all ranks
    classifier = Classifier(options, ranks, model, train, val, test)
    with out_of_memory_explained(ranks):
        make_trainer(options, ranks).fit(classifier, ckpt_path=classifier.latest, weights_only=True)
        classifier.finish()
    ranks.leave(at_once=options.strategy == "fsdp")


class Classifier(LightningModule):
    """A model, its optimizer and its data, in the hooks that Lightning's loop calls."""

    def __init__(
        self,
        options: Namespace,
        ranks: Ranks,
        model: nn.Module,
        train: Dataset,
        val: Dataset | None,
        test: Dataset,
    ) -> None:
        super().__init__()
        self.options, self.ranks, self.model = options, ranks, model
        ranks.beat("model set-up")
        self.train_feed, self.test_feed = self.feed(train, training=True), self.feed(test)
        self.val_feed, self.judge = (self.feed(val), "val") if val else (self.test_feed, "test")
        self.report = Report(options, ranks, count_flops(model, train[0][0]))
        self.schedule = Schedule(options, ranks.world_size, len(self.train_feed))
        self.checkpoints = Checkpoints(options.run_dir, ranks, options.keep)
        self.profile = Profile(ranks, options.run_dir, options.profile)
        self.folder = self.checkpoints.find()
        self.latest = self.folder / "lightning" if self.folder else None
        self.from_batch, self.sums, self.norm = 0, [0.0] * 3, None
        if options.compile and options.strategy == "ddp":
            model.compile()  # in place, which keeps the names of the weights

    def feed(self, dataset: Dataset, training: bool = False) -> Feed:
        """Return this rank's part of the batches of a dataset."""
        options, ranks = self.options, self.ranks
        size = global_batch_size(options, ranks.world_size)
        order = Order(
            len(dataset), size // options.accumulate, ranks.rank, ranks.world_size,
            seed=options.seed if training else None, multiple=options.accumulate,
        )  # fmt: skip
        if not len(order):
            ranks.agree(f"--batch-size {size} is more than the {len(dataset)} training samples. Use less.")
        augment = augment_for(options) if training else None
        feed = Feed(dataset, order, ranks.device, options.workers, augment, options.channels_last)
        # Lightning only asks whether they exist: `begin_epoch` sets the position.
        feed.state_dict, feed.load_state_dict = dict, lambda state: None
        return feed

    def train_dataloader(self) -> Feed:
        """Return this rank's part of the training batches."""
        return self.train_feed

    def val_dataloader(self) -> Feed:
        """Return this rank's part of the batches that measure each epoch."""
        return self.val_feed

    def configure_model(self) -> None:
        """Shard the weights, for `--strategy fsdp`. Lightning may call this twice."""
        if self.options.strategy == "fsdp" and not hasattr(self.model, "set_requires_gradient_sync"):
            shard(self.model, self.options)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer; `optimizer_step` sets its learning rate."""
        return build_optimizer(self.model, self.options)

    def on_fit_start(self) -> None:
        """Restore the position. A finished run ends after this hook."""
        if self.folder:
            state = self.state = read(self.folder / "state.pt")
            check_options(state["options"], self.options, self.ranks)
            self.report.restore(state["report"], self.schedule.done(state["epoch"], state["batch"]))
            self.from_batch, self.sums = state["batch"], state["sums"]
        else:
            self.report.restore({"epochs": [], "seconds": 0.0}, step=0)

    def on_train_start(self) -> None:
        """Restore what Lightning has overwritten or does not restore."""
        torch.manual_seed(self.options.seed + self.ranks.rank)  # each rank has its own random numbers
        if self.folder:
            keep_weight_decay(self.optimizers().optimizer, self.options)
            self.checkpoints.restore_random(self.folder, self.state["world_size"])
        self.trainer.strategy.model.broadcast_buffers = False  # in each step, only for each evaluation
        self.stop = Stop(self.options, self.ranks)  # after Lightning has set its own handler of SIGTERM
        self.trainer.should_stop = self.report.finished(self.judge)
        if self.from_batch:
            self.begin_epoch()

    def on_train_epoch_start(self) -> None:
        """Start an epoch. Lightning does not call this to continue within one."""
        if not self.from_batch:
            self.begin_epoch()

    def begin_epoch(self) -> None:
        """Select the order of the data, and start to measure."""
        self.train_feed.order.set_epoch(self.current_epoch, self.from_batch)
        batches, warm = len(self.train_feed) - self.from_batch, self.report.warm and not self.from_batch
        self.meter = Meter(self.ranks, batches, self.sums, warm)

    def training_step(self, batch: Batch, number: int) -> Tensor:
        """Return the mean loss of this rank's part of a batch."""
        self.ranks.beat("training step")
        done, every = self.schedule.done(self.current_epoch, number), self.options.accumulate
        if (self.ranks.rank, done) == (self.options.crash_rank, self.options.crash_step):
            raise RuntimeError(f"rank {self.ranks.rank} fails on purpose (--crash-rank)")
        if self.options.strategy == "fsdp":  # Lightning would sum the gradients after each part of a step
            self.model.set_requires_gradient_sync((number + 1) % every == 0)
        images, labels = batch
        logits = self.model(images)
        loss = cross_entropy(logits.float(), labels, label_smoothing=self.options.label_smoothing)
        self.meter.add(logits, labels, loss)
        self.loss = loss.detach()
        return loss

    def configure_gradient_clipping(self, optimizer: Any, *_args: Any, **_kwargs: Any) -> None:
        """Clip the gradients."""
        if self.options.clip_norm is not None:
            if self.options.precision == "fp16" and self.options.fused:
                self.trainer.precision_plugin.scaler.unscale_(optimizer)  # Lightning would not
            norm = clip_grad_norm_(self.model.parameters(), self.options.clip_norm)
            self.norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm

    def optimizer_step(self, epoch: int, batch: int, optimizer: Any, closure: Any = None) -> None:
        """Update the weights, with the learning rate of this step."""
        number = self.schedule.done(epoch, batch)
        lr = self.schedule.set(optimizer, number)
        super().optimizer_step(epoch, batch, optimizer, closure)
        self.report.step(number + 1, lr, self.loss, self.norm)
        self.profile.step()

    def on_train_batch_end(self, _outputs: Any, _batch: Batch, number: int) -> None:
        """After a complete step, stop if the job is about to end."""
        done = number + 1
        if done % self.options.accumulate == 0 and done < len(self.train_feed) and self.stop.due():
            self.save(self.current_epoch, done, self.meter.totals())
            self.stop.leave(self.schedule.done(self.current_epoch, done))
        self.ranks.beat("next batch")

    def on_validation_epoch_start(self) -> None:
        """Start to measure the model."""
        self.meter.stop()
        self.train_meter, self.meter = self.meter, Meter(self.ranks, len(self.val_feed))
        for buffer in self.model.buffers() if self.ranks.world_size > 1 else ():
            dist.broadcast(buffer, src=0)  # running statistics of BatchNorm, which differ between ranks

    def validation_step(self, batch: Batch, _: int) -> None:
        """Measure the model on this rank's part of a batch."""
        self.ranks.beat("evaluation")
        images, labels = batch
        self.meter.add(self.model(images), labels)

    def on_train_epoch_end(self) -> None:
        """Report and save; stop if the target is reached or the job is about to end."""
        epoch = self.current_epoch + 1
        self.report.epoch(
            self.train_meter, self.meter, self.schedule.lr(self.schedule.done(epoch) - 1), self.judge
        )
        self.export("best") if self.judge == "val" and self.report.is_best(self.judge) else None
        finished = self.trainer.should_stop = self.report.finished(self.judge)
        leaving = not finished and self.stop.due(now=True)
        if finished or leaving or epoch % self.options.save_every == 0:
            self.save(epoch, 0, [0.0] * 3)
        self.from_batch, self.sums = 0, [0.0] * 3
        if leaving:
            self.stop.leave(self.schedule.done(epoch))

    def finish(self) -> None:
        """Report the result, and write the model."""
        self.profile.stop()
        test = None
        if self.judge == "val":
            self.trainer.validate(self, self.test_feed, verbose=False)
            test = self.meter
        self.report.end(self.model, test)
        self.export("final")

    def save(self, epoch: int, batch: int, sums: list[float]) -> None:
        """Save what a continued run needs, after `batch` batches of `epoch`. All ranks must call this."""
        if not self.options.run_dir:
            return
        self.ranks.beat("checkpoint")
        self.report.flush()
        self.report.check(sums, self.model, self.optimizers().optimizer)
        best = not batch and self.report.is_best(self.judge)
        with self.checkpoints.new(f"{epoch}-{batch}", best) as folder:
            self.trainer.save_checkpoint(folder / "lightning")
            if self.ranks.rank == 0:
                state = {
                    "epoch": epoch, "batch": batch, "sums": sums, "world_size": self.ranks.world_size,
                    "options": recorded(self.options, self.ranks.world_size), "report": self.report.state(),
                }  # fmt: skip
                torch.save(state, folder / "state.pt")

    def export(self, name: str) -> None:
        """Write the weights alone, for inference, as model-NAME.pt."""
        if self.options.run_dir:
            self.ranks.beat("checkpoint")
            export(self.model, self.options.run_dir / f"model-{name}.pt", self.ranks)


def make_trainer(options: Namespace, ranks: Ranks) -> Trainer:
    """Return a Trainer for the ranks of the launch. Logs and checkpoints are the classifier's."""
    plugins: list[Any] = [TorchElasticEnvironment() if ranks.world_size > 1 else LightningEnvironment()]
    if options.precision == "fp16":  # with `precision`, Lightning would take bf16 on CPUs
        plugins.append(MixedPrecision("16-mixed", ranks.device.type))
    return Trainer(
        **launch(options, ranks),
        plugins=plugins,
        accelerator="gpu" if ranks.device.type == "cuda" else "cpu",
        precision={"fp32": "32-true", "bf16": "bf16-mixed"}.get(options.precision),
        accumulate_grad_batches=options.accumulate,
        max_epochs=options.epochs,
        use_distributed_sampler=False,  # Lightning's sampler would repeat test samples
        num_sanity_val_steps=0,
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=sys.stdout.isatty(),
    )


def launch(options: Namespace, ranks: Ranks) -> dict[str, Any]:
    """Return the devices, nodes and strategy for the ranks that the launcher has started."""
    if options.strategy == "fsdp":
        strategy: Any = ModelParallelStrategy(data_parallel_size=ranks.world_size, tensor_parallel_size=1)
    elif ranks.world_size > 1:
        strategy = DDPStrategy(
            bucket_cap_mb=options.bucket_mb, static_graph=options.static_graph,
            gradient_as_bucket_view=True,
        )  # fmt: skip
    else:
        strategy = "auto"
    here = ranks.gather(ranks.host).count(ranks.host)
    if ranks.device.type == "cuda" and torch.cuda.device_count() == 1:
        # Each task sees its own GPU only: for Lightning, it is on a node of its own.
        os.environ["LOCAL_RANK"], here = "0", 1
    nodes = ranks.world_size // here
    # `start` has set torchrun's variables, under srun too. The batch script requeues the job, not Lightning.
    return {"strategy": strategy, "devices": here, "num_nodes": nodes}


def be_quiet() -> None:
    """Suppress Lightning's messages about itself."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    logging.getLogger("lightning.fabric").setLevel(logging.WARNING)
    # It suggests workers, which data in memory do not need, and uses a function that torch has renamed.
    warnings.filterwarnings("ignore", message=".*does not have many workers.*|.*LeafSpec.*")


if __name__ == "__main__":
    main()
