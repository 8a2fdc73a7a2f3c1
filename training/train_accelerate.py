"""Train an image classifier with accelerate.

    accelerate launch --multi_gpu --num_machines=1 --num_processes=4 --mixed_precision=no \\
        --dynamo_backend=no train_accelerate.py --task cifar10

For your own data and model, change the two marked lines.
"""

import os
from argparse import Namespace
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from accelerate import Accelerator, DistributedDataParallelKwargs, FullyShardedDataParallelPlugin
from accelerate.utils import GradientAccumulationPlugin
from augment import augment_for
from data import Feed, Order
from device import count_flops, out_of_memory_explained
from images import load
from models import blocks, build_model
from optimize import Schedule, build_optimizer, keep_weight_decay
from options import DDP, STRATEGY, check_options, global_batch_size, parse_options, recorded
from profiling import Profile
from ranks import Ranks, start
from report import Meter, Report, export, progress
from resume import Checkpoints, read
from shard import keep_norms, policy
from stop import Stop
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.functional import cross_entropy
from torch.utils.data import Dataset


def main() -> None:
    """Train from the latest checkpoint, or from the start."""
    options = parse_options(DDP, STRATEGY, framework="accelerate")
    ranks = start(options)
    train, val, test = load(options, ranks)  # your own: datasets of (image, label); `val` may be None
    model = build_model(options, ranks.device)  # your own: a model with equal weights on all ranks
    training = Training(options, ranks, model, train, val, test)
    with out_of_memory_explained(ranks):
        training.run()
    ranks.leave(at_once=options.strategy == "fsdp")


class Training:
    """A model, its optimizer and its data, and the loop over epochs and batches."""

    def __init__(
        self,
        options: Namespace,
        ranks: Ranks,
        model: nn.Module,
        train: Dataset,
        val: Dataset | None,
        test: Dataset,
    ) -> None:
        self.options, self.ranks = options, ranks
        ranks.beat("model set-up")
        self.train, self.test = self.feed(train, training=True), self.feed(test)
        self.val, self.judge = (self.feed(val), "val") if val else (self.test, "test")
        self.report = Report(options, ranks, count_flops(model, train[0][0]))
        if options.compile:
            model.compile()  # in place, which keeps the names of the weights
        self.accelerator = make_accelerator(options, ranks, model)
        if options.strategy == "fsdp":
            keep_norms(model)
        # Not the feeds: they have only this rank's part already, and each sample once.
        self.model, self.optimizer = self.accelerator.prepare(model, build_optimizer(model, options))
        self.module = self.accelerator.unwrap_model(self.model)
        self.model.broadcast_buffers = False  # by DDP in each step: `evaluate` does it when they are needed
        self.schedule = Schedule(options, ranks.world_size, len(self.train))
        self.checkpoints = Checkpoints(options.run_dir, ranks, options.keep)
        self.stop = Stop(options, ranks)
        self.profile = Profile(ranks, options.run_dir, options.profile)
        torch.manual_seed(options.seed + ranks.rank)  # from here on, each rank has its own random numbers

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
        return Feed(dataset, order, ranks.device, options.workers, augment, options.channels_last)

    def run(self) -> None:
        """Train to the end, or until a graceful stop."""
        epoch, batch, sums = self.restore()
        while not self.report.finished(self.judge):
            train = self.train_epoch(epoch, batch, sums)
            epoch, batch, sums = epoch + 1, 0, [0.0] * 3
            lr = self.schedule.lr(self.schedule.done(epoch) - 1)
            self.report.epoch(train, self.evaluate(self.val), lr, self.judge)
            self.export("best") if self.judge == "val" and self.report.is_best(self.judge) else None
            finished = self.report.finished(self.judge)
            leaving = not finished and self.stop.due(now=True)
            if finished or leaving or epoch % self.options.save_every == 0:
                self.save(epoch, batch, sums)
            if leaving:
                self.stop.leave(self.schedule.done(epoch, batch))
        self.profile.stop()
        self.report.end(self.module, self.evaluate(self.test) if self.judge == "val" else None)
        self.export("final")

    def train_epoch(self, epoch: int, start: int, sums: list[float]) -> Meter:
        """Train from batch `start` of an epoch, with the `sums` of the part before it, to the epoch's end."""
        options, feed, every = self.options, self.train, self.options.accumulate
        self.model.train()
        feed.order.set_epoch(epoch, start)  # without it, every epoch would have the same order
        meter = Meter(self.ranks, len(feed) - start, sums, self.report.warm and not start)
        for batch, (images, labels) in enumerate(progress(feed, len(feed) - start, self.ranks), start):
            self.ranks.beat("training step")
            number, complete = self.schedule.done(epoch, batch), (batch + 1) % every == 0
            if (self.ranks.rank, number) == (options.crash_rank, options.crash_step):
                raise RuntimeError(f"rank {self.ranks.rank} fails on purpose (--crash-rank)")
            # Only the last part of a step sums the gradients over the ranks. `backward` divides the loss.
            with self.accelerator.accumulate(self.model):
                with self.accelerator.autocast():
                    logits = self.model(images)
                loss = cross_entropy(logits.float(), labels, label_smoothing=options.label_smoothing)
                self.accelerator.backward(loss)
            meter.add(logits, labels, loss)
            if complete:
                self.step(number, loss)
                if batch + 1 < len(feed) and self.stop.due():
                    self.save(epoch, batch + 1, meter.totals())
                    self.stop.leave(self.schedule.done(epoch, batch + 1))
            self.ranks.beat("next batch")
        meter.stop()
        return meter

    def step(self, number: int, loss: Tensor) -> None:
        """Update the weights."""
        norm = None
        if self.options.clip_norm is not None:
            # This divides by the loss scale of fp16 first.
            norm = self.accelerator.clip_grad_norm_(self.model.parameters(), self.options.clip_norm)
            norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        lr = self.schedule.set(self.optimizer, number)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.report.step(number + 1, lr, loss, norm)
        self.profile.step()

    @torch.no_grad()
    def evaluate(self, feed: Feed) -> Meter:
        """Measure the model on every sample exactly once, with any number of ranks."""
        self.model.eval()
        for buffer in self.module.buffers() if self.ranks.world_size > 1 else ():
            dist.broadcast(buffer, src=0)  # running statistics of BatchNorm, which differ between ranks
        meter = Meter(self.ranks, len(feed))
        for images, labels in feed:
            self.ranks.beat("evaluation")
            with self.accelerator.autocast():
                logits = self.model(images)
            meter.add(logits, labels)
        return meter

    def save(self, epoch: int, batch: int, sums: list[float]) -> None:
        """Save what a continued run needs, after `batch` batches of `epoch`. All ranks must call this."""
        if not self.options.run_dir:
            return
        self.ranks.beat("checkpoint")
        self.report.flush()
        self.report.check(sums, self.module, self.optimizer.optimizer)
        best = not batch and self.report.is_best(self.judge)
        with self.checkpoints.new(f"{epoch}-{batch}", best) as folder:
            # With FSDP, every rank writes its shards; otherwise rank 0 writes everything.
            dcp.save(self.weights(), checkpoint_id=folder / "weights")
            if self.ranks.rank == 0:
                state = {
                    "epoch": epoch, "batch": batch, "sums": sums, "world_size": self.ranks.world_size,
                    "options": recorded(self.options, self.ranks.world_size), "report": self.report.state(),
                    "scaler": self.accelerator.scaler.state_dict() if self.accelerator.scaler else {},
                }  # fmt: skip
                torch.save(state, folder / "state.pt")

    def weights(self) -> dict[str, Any]:
        """Return model and optimizer in a form that any number of ranks can read. All must call this."""
        model, optimizer = get_state_dict(self.module, self.optimizer.optimizer)
        return {"model": model, "optimizer": optimizer}

    def restore(self) -> tuple[int, int, list[float]]:
        """Restore the latest checkpoint: return its epoch, batch and sums. All ranks must call this."""
        folder = self.checkpoints.find()
        if folder is None:
            self.report.restore({"epochs": [], "seconds": 0.0}, step=0)
            return 0, 0, [0.0] * 3
        state = read(folder / "state.pt")
        check_options(state["options"], self.options, self.ranks)
        weights = self.weights()
        dcp.load(weights, checkpoint_id=folder / "weights")
        set_state_dict(
            self.module, self.optimizer.optimizer,
            model_state_dict=weights["model"], optim_state_dict=weights["optimizer"],
        )  # fmt: skip
        keep_weight_decay(self.optimizer, self.options)
        if self.accelerator.scaler and state["scaler"]:
            self.accelerator.scaler.load_state_dict(state["scaler"])
        self.report.restore(state["report"], self.schedule.done(state["epoch"], state["batch"]))
        self.checkpoints.restore_random(folder, state["world_size"])
        return state["epoch"], state["batch"], state["sums"]

    def export(self, name: str) -> None:
        """Write the weights alone, for inference, as model-NAME.pt."""
        if self.options.run_dir:
            self.ranks.beat("checkpoint")
            export(self.module, self.options.run_dir / f"model-{name}.pt", self.ranks)


def make_accelerator(options: Namespace, ranks: Ranks, model: nn.Module) -> Accelerator:
    """Return the Accelerator. The plug-in overrides ACCELERATE_GRADIENT_ACCUMULATION_STEPS."""
    fsdp = options.strategy == "fsdp"
    if ranks.device.type == "cuda" and torch.cuda.device_count() == 1:
        os.environ["LOCAL_RANK"] = "0"  # each task sees only its own GPU
    ddp = DistributedDataParallelKwargs(
        bucket_cap_mb=options.bucket_mb, static_graph=options.static_graph,
        gradient_as_bucket_view=True,
    )  # fmt: skip
    return Accelerator(
        cpu=ranks.device.type == "cpu",
        mixed_precision="no" if options.precision == "fp32" else options.precision,
        gradient_accumulation_plugin=GradientAccumulationPlugin(
            options.accumulate, sync_with_dataloader=False
        ),
        kwargs_handlers=[ddp],
        fsdp_plugin=make_fsdp_plugin(options, model) if fsdp else None,
    )


def make_fsdp_plugin(options: Namespace, model: nn.Module) -> FullyShardedDataParallelPlugin:
    """Return the settings of FSDP2, which shards the model block by block."""
    names = sorted({type(block).__name__ for block in blocks(model)})
    return FullyShardedDataParallelPlugin(
        fsdp_version=2,
        mixed_precision_policy=policy(options),
        auto_wrap_policy="transformer_based_wrap" if names else "no_wrap",
        transformer_cls_names_to_wrap=names or None,
        cpu_ram_efficient_loading=False,
    )


if __name__ == "__main__":
    main()
