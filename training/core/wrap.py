"""The two ways to train one model on many ranks: copies of it, or shards of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from .config import Config
from .models import shards

T = TypeVar("T")

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def ddp_options(config: Config) -> dict[str, Any]:
    """Return the options of DistributedDataParallel, wherever it is made."""
    # A view saves the memory of the buckets and a copy of all gradients in each step.
    return {
        "bucket_cap_mb": config.bucket_mb,
        "gradient_as_bucket_view": True,
        "static_graph": config.static_graph,
    }


def replicated(model: nn.Module, config: Config) -> DistributedDataParallel:
    """Return `model` with a copy on each rank."""
    return without_buffers(DistributedDataParallel(model, **ddp_options(config)))


def without_buffers(model: T) -> T:
    """Let DistributedDataParallel not send rank 0's buffers in each step: only tests read them."""
    if isinstance(model, DistributedDataParallel):
        model.broadcast_buffers = False
    return model


def sharded(model: nn.Module) -> nn.Module:
    """Cut the weights of `model` into a shard for each rank, in place."""
    for part in shards(model):
        fully_shard(part)
    return model


@contextmanager
def no_sync(model: nn.Module) -> Iterator[None]:
    """Add up gradients on this rank alone."""
    if isinstance(model, DistributedDataParallel):
        with model.no_sync():
            yield
        return
    set_sync(model, False)
    yield
    set_sync(model, True)


def set_sync(model: nn.Module, on: bool) -> None:
    """Let the next backward pass of a model in shards add up the gradients of all ranks, or not."""
    model.set_requires_gradient_sync(on)  # type: ignore[operator]


def share_buffers(model: nn.Module) -> None:
    """Give all ranks rank 0's BatchNorm statistics, so that all test one model; every rank calls this."""
    if dist.is_initialized():
        for buffer in model.buffers():
            dist.broadcast(buffer, src=0)
