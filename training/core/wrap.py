"""Two strategies to train a model on several ranks: copies (DDP) or shards (FSDP)."""

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
    """Return the options of DistributedDataParallel."""
    # Views save the memory of the buckets, and copying the gradients in each step.
    return {
        "bucket_cap_mb": config.bucket_mb,
        "gradient_as_bucket_view": True,
        "static_graph": config.static_graph,
    }


def replicated(model: nn.Module, config: Config) -> DistributedDataParallel:
    """Return `model` with a copy on each rank."""
    return without_buffers(DistributedDataParallel(model, **ddp_options(config)))


def without_buffers(model: T) -> T:
    """Stop DistributedDataParallel from sending rank 0's buffers in each step: only evaluations read them."""
    if isinstance(model, DistributedDataParallel):
        model.broadcast_buffers = False
    return model


def sharded(model: nn.Module) -> nn.Module:
    """Shard the weights of `model` over the ranks, in place."""
    for part in shards(model):
        fully_shard(part)
    return model


@contextmanager
def no_sync(model: nn.Module) -> Iterator[None]:
    """Accumulate gradients without synchronization."""
    if isinstance(model, DistributedDataParallel):
        with model.no_sync():
            yield
        return
    set_sync(model, False)
    yield
    set_sync(model, True)


def set_sync(model: nn.Module, on: bool) -> None:
    """Enable or disable gradient synchronization in the next backward pass of a sharded model."""
    model.set_requires_gradient_sync(on)  # type: ignore[operator]


def share_buffers(model: nn.Module) -> None:
    """Copy rank 0's BatchNorm statistics to all ranks before an evaluation. Every rank must call this."""
    if dist.is_initialized():
        for buffer in model.buffers():
            dist.broadcast(buffer, src=0)
