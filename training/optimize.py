"""The optimizer and the learning rate of each step."""

import math
from argparse import Namespace

import torch
from options import scaled_lr
from torch import nn


def build_optimizer(model: nn.Module, options: Namespace) -> torch.optim.Optimizer:
    """Return the optimizer of `model`, which must already be on its device, and sharded if it will be."""
    weights = list(model.parameters())
    groups = [
        {"params": [each for each in weights if each.ndim > 1], "weight_decay": options.weight_decay},
        {"params": [each for each in weights if each.ndim <= 1], "weight_decay": 0.0},  # norms and biases
    ]
    if options.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=options.lr, fused=options.fused)
    # Fused SGD does not know the shards of FSDP. None: the fastest of the others.
    fused = None if getattr(options, "strategy", "ddp") == "fsdp" else options.fused
    return torch.optim.SGD(groups, lr=options.lr, momentum=0.9, nesterov=True, fused=fused)


def keep_weight_decay(optimizer: torch.optim.Optimizer, options: Namespace) -> None:
    """Apply --weight-decay again: a restored optimizer brings back the earlier one."""
    optimizer.param_groups[0]["weight_decay"] = options.weight_decay


class Schedule:
    """The learning rate of each step: it rises for --warmup-epochs, then falls to 0 along a cosine."""

    def __init__(self, options: Namespace, world_size: int, batches: int) -> None:
        """`batches`: those of an epoch, of which --accumulate are a step."""
        self.highest, self.accumulate = scaled_lr(options, world_size), options.accumulate
        self.of_epoch = batches // options.accumulate
        self.steps = options.epochs * self.of_epoch
        self.warmup = min(round(options.warmup_epochs * self.of_epoch), self.steps)

    def lr(self, step: int) -> float:
        """Return the learning rate of `step`, counted from 0."""
        if step < self.warmup:
            return self.highest * ((step + 1) / (self.warmup + 1))
        share = (step - self.warmup) / max(self.steps - self.warmup, 1)
        return self.highest * (0.5 * (1 + math.cos(math.pi * share)))

    def set(self, optimizer: torch.optim.Optimizer, step: int) -> float:
        """Set and return the learning rate of `step`."""
        for group in optimizer.param_groups:
            group["lr"] = self.lr(step)
        return self.lr(step)

    def done(self, epoch: int, batch: int = 0) -> int:
        """Return the number of steps that are done after `batch` batches of `epoch`."""
        return epoch * self.of_epoch + batch // self.accumulate
