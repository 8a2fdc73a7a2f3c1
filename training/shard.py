"""Sharding a model with FSDP2, for train_fsdp.py and the other frameworks' `--strategy fsdp`."""

from argparse import Namespace
from functools import partial

import torch
import torch.distributed as dist
from device import DTYPES
from models import blocks
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.functional import batch_norm


def shard(model: nn.Module, options: Namespace) -> nn.Module:
    """Shard the weights over the ranks, in place: block by block, so that one block at a time is complete."""
    mesh = mesh_of(next(model.parameters()).device.type, getattr(options, "replicas", 1))
    for block in blocks(model):
        if options.compile:
            block.compile()
        fully_shard(block, mesh=mesh, mp_policy=policy(options))
    keep_norms(model)
    return fully_shard(model, mesh=mesh, mp_policy=policy(options), reshard_after_forward=True)


def mesh_of(device: str, replicas: int) -> DeviceMesh:
    """Return the ranks as one row of shards, or (HSDP) as rows that each hold a whole model."""
    world_size = dist.get_world_size()
    if replicas == 1:
        return init_device_mesh(device, (world_size,))
    names = ("replicate", "shard")
    return init_device_mesh(device, (replicas, world_size // replicas), mesh_dim_names=names)


def policy(options: Namespace) -> MixedPrecisionPolicy:
    """Return the types: weights are gathered in --precision, and gradients are summed in fp32."""
    return MixedPrecisionPolicy(param_dtype=DTYPES[options.precision], reduce_dtype=torch.float32)


def keep_norms(model: nn.Module) -> None:
    """Let BatchNorm compute with weights in fp32, like its running statistics, in place."""
    for norm in model.modules():
        if isinstance(norm, nn.BatchNorm2d):
            norm.forward = partial(normalize, norm)


def normalize(norm: nn.BatchNorm2d, images: Tensor) -> Tensor:
    """Apply BatchNorm with its weights in fp32, which its running statistics must match."""
    share = norm.momentum if norm.training else 0.0
    norm.num_batches_tracked += norm.training
    weight, bias = norm.weight.float(), norm.bias.float()
    return batch_norm(
        images, norm.running_mean, norm.running_var, weight, bias, norm.training, share, norm.eps
    )
