"""The optimizer and the learning-rate schedule."""

import math

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from .config import Config


def build_optimizer(model: nn.Module, config: Config, world_size: int = 1) -> torch.optim.Optimizer:
    """Return the optimizer of `model`, which must already be on its device, and sharded if it will be."""
    groups = _groups(model, config.weight_decay)
    lr = scaled_lr(config, world_size)
    if config.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=lr, fused=config.fused)
    return torch.optim.SGD(groups, lr=lr, momentum=0.9, nesterov=True, fused=config.fused)


def build_scheduler(optimizer: torch.optim.Optimizer, config: Config, steps_per_epoch: int) -> LambdaLR:
    """Return the schedule, stepped after each step: warm-up, then a cosine to 0."""
    steps = config.epochs * steps_per_epoch
    warmup = min(round(config.warmup_epochs * steps_per_epoch), steps)
    return LambdaLR(optimizer, lambda step: _share(step, warmup, steps))


def scaled_lr(config: Config, world_size: int) -> float:
    """Return the highest learning rate: `--lr`, scaled if the batch size is not the default of the task."""
    ratio = config.global_batch_size(world_size) / config.task.batch_size
    power = {"linear": 1.0, "sqrt": 0.5, "none": 0.0}[config.lr_scaling]
    return float(config.lr * ratio**power)


def _groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    # Vectors are norms and biases, which are not decayed.
    weights = list(model.parameters())
    return [
        {"params": [each for each in weights if each.ndim > 1], "weight_decay": weight_decay},
        {"params": [each for each in weights if each.ndim <= 1], "weight_decay": 0.0},
    ]


def _share(step: int, warmup: int, steps: int) -> float:
    if step < warmup:
        return (step + 1) / (warmup + 1)
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(steps - warmup, 1)))
