"""Train an image classifier with FSDP2: each rank keeps a shard of weights, gradients and optimizer.

    torchrun --standalone --nproc-per-node=4 train_fsdp.py --task cifar100

For your own data and model, change the two marked lines.
"""

from argparse import Namespace
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from augment import augment_for
from data import Feed, Order
from device import DTYPES, count_flops, out_of_memory_explained
from images import load
from models import build_model
from optimize import Schedule, build_optimizer, keep_weight_decay
from options import FSDP, check_options, global_batch_size, parse_options, recorded
from profiling import Profile
from ranks import Ranks, start
from report import Meter, Report, export, progress
from resume import Checkpoints, read
from shard import shard
from stop import Stop
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import Dataset


def main() -> None:
    """Train from the latest checkpoint, or from the start."""
    options = parse_options(FSDP, framework="fsdp", strategy="fsdp")
    ranks = start(options)
    train, val, test = load(options, ranks)  # your own: datasets of (image, label); `val` may be None
    model = build_model(options, ranks.device)  # your own: a model with equal weights on all ranks
    training = Training(options, ranks, model, train, val, test)
    with out_of_memory_explained(ranks):
        training.run()
    ranks.leave(at_once=True)


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
        self.model = shard(model, options)
        self.optimizer = build_optimizer(model, options)
        self.schedule = Schedule(options, ranks.world_size, len(self.train))
        # fp16 cannot hold small gradients: the loss is scaled up, and the gradients down before the step.
        self.scaler = torch.amp.GradScaler(ranks.device.type, enabled=options.precision == "fp16")
        self.checkpoints = Checkpoints(options.run_dir, ranks, options.keep)
        self.stop = Stop(options, ranks)
        # For the thread that writes shards: its messages must not mix with those of the training.
        self.group, self.pending = dist.new_group(backend="gloo"), None
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
            self.finish_save()  # before a loss that is not finite may end the run
            epoch, batch, sums = epoch + 1, 0, [0.0] * 3
            lr = self.schedule.lr(self.schedule.done(epoch) - 1)
            self.report.epoch(train, self.evaluate(self.val), lr, self.judge)
            self.export("best") if self.judge == "val" and self.report.is_best(self.judge) else None
            finished = self.report.finished(self.judge)
            leaving = not finished and self.stop.due(now=True)
            if finished or leaving or epoch % self.options.save_every == 0:
                self.save(epoch, batch, sums)
            if leaving:
                self.finish_save()
                self.stop.leave(self.schedule.done(epoch, batch))
        self.profile.stop()
        self.finish_save()
        self.report.end(self.model, self.evaluate(self.test) if self.judge == "val" else None)
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
            # Only the last part of a step sums the gradients over the ranks.
            self.model.set_requires_gradient_sync(complete)
            with self.autocast():
                logits = self.model(images)
            loss = cross_entropy(logits.float(), labels, label_smoothing=options.label_smoothing)
            self.scaler.scale(loss / every).backward()
            meter.add(logits, labels, loss)
            if complete:
                self.step(number, loss)
                if batch + 1 < len(feed) and self.stop.due():
                    self.save(epoch, batch + 1, meter.totals())
                    self.finish_save()
                    self.stop.leave(self.schedule.done(epoch, batch + 1))
            self.ranks.beat("next batch")
        meter.stop()
        return meter

    def step(self, number: int, loss: Tensor) -> None:
        """Update the weights."""
        norm = None
        if self.options.clip_norm is not None:
            self.scaler.unscale_(self.optimizer)  # before the norm, which would be that of scaled gradients
            norm = clip_grad_norm_(self.model.parameters(), self.options.clip_norm).full_tensor()
        lr = self.schedule.set(self.optimizer, number)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        self.report.step(number + 1, lr, loss, norm)
        self.profile.step()

    @torch.no_grad()
    def evaluate(self, feed: Feed) -> Meter:
        """Measure the model on every sample exactly once, with any number of ranks."""
        self.model.eval()
        for buffer in self.model.buffers() if self.ranks.world_size > 1 else ():
            dist.broadcast(buffer, src=0)  # running statistics of BatchNorm, which differ between ranks
        meter = Meter(self.ranks, len(feed))
        for images, labels in feed:
            self.ranks.beat("evaluation")
            with self.autocast():
                logits = self.model(images)
            meter.add(logits, labels)
        return meter

    def autocast(self) -> AbstractContextManager[object]:
        """Compute matrix products in --precision."""
        if self.options.precision == "fp32":
            return nullcontext()
        return torch.autocast(self.ranks.device.type, DTYPES[self.options.precision])

    def save(self, epoch: int, batch: int, sums: list[float]) -> None:
        """Save what a continued run needs, after `batch` batches of `epoch`. All ranks must call this."""
        if not self.options.run_dir:
            return
        self.finish_save()  # first: the check may end the run
        self.ranks.beat("checkpoint")
        self.report.flush()
        self.report.check(sums, self.model, self.optimizer)
        best = not batch and self.report.is_best(self.judge)
        new = self.checkpoints.new(f"{epoch}-{batch}", best)
        folder = new.__enter__()
        if self.ranks.rank == 0:
            state = {
                "epoch": epoch, "batch": batch, "sums": sums, "world_size": self.ranks.world_size,
                "options": recorded(self.options, self.ranks.world_size), "report": self.report.state(),
                "scaler": self.scaler.state_dict(),
            }  # fmt: skip
            torch.save(state, folder / "state.pt")
        # Every rank writes its shards, under names that any number of ranks can read, while the next epoch
        # trains on: this call only copies them to the memory of the CPU.
        shards = dcp.async_save(self.shards(), checkpoint_id=folder / "shards", process_group=self.group)
        self.pending = new, shards

    def finish_save(self) -> None:
        """Wait until the shards are written; this is then the latest checkpoint. All ranks must call this."""
        if self.pending:
            self.ranks.beat("checkpoint")
            (new, shards), self.pending = self.pending, None
            shards.result()
            new.__exit__(None, None, None)

    def shards(self) -> dict[str, Any]:
        """Return this rank's shards of the model and the optimizer. All ranks must call this."""
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def restore(self) -> tuple[int, int, list[float]]:
        """Restore the latest checkpoint: return its epoch, batch and sums. All ranks must call this."""
        folder = self.checkpoints.find()
        if folder is None:
            self.report.restore({"epochs": [], "seconds": 0.0}, step=0)
            return 0, 0, [0.0] * 3
        state = read(folder / "state.pt")
        check_options(state["options"], self.options, self.ranks)
        shards = self.shards()
        dcp.load(shards, checkpoint_id=folder / "shards")
        set_state_dict(
            self.model, self.optimizer, model_state_dict=shards["model"], optim_state_dict=shards["optimizer"]
        )
        keep_weight_decay(self.optimizer, self.options)
        self.scaler.load_state_dict(state["scaler"])
        self.report.restore(state["report"], self.schedule.done(state["epoch"], state["batch"]))
        self.checkpoints.restore_random(folder, state["world_size"])
        return state["epoch"], state["batch"], state["sums"]

    def export(self, name: str) -> None:
        """Write the weights alone, for inference, as model-NAME.pt."""
        if self.options.run_dir:
            self.ranks.beat("checkpoint")
            export(self.model, self.options.run_dir / f"model-{name}.pt", self.ranks)


if __name__ == "__main__":
    main()
