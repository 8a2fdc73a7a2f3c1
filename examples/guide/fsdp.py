"""FSDP2: each rank keeps a part of all parameters, and gathers a block when it computes with it."""

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint import state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    """The layer that repeats. It is the unit that FSDP gathers and frees."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(self.norm(x))


class Model(nn.Module):
    """A residual network. Replace it with your own model that has a list of blocks."""

    def __init__(self, width: int = 64, depth: int = 4, save_memory: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 10)
        self.save_memory = save_memory

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            # Activation checkpointing: drop what is inside the block, compute it again in the backward pass.
            x = checkpoint(block, x, use_reentrant=False) if self.save_memory else block(x)
        return self.head(x)


def shard(model: Model, precision: str, reshard: bool) -> Model:
    """Shard the blocks first, then the rest with the root. The optimizer must come after this."""
    policy = MixedPrecisionPolicy()
    if precision == "bf16":  # parameters stay fp32 in the shards; gathered copies and activations are bf16
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mp_policy=policy, reshard_after_forward=reshard)
    fully_shard(model, mp_policy=policy)
    return model


def local_bytes(tensors: list[Tensor]) -> int:
    """What this rank keeps of them. A sharded tensor is a DTensor; a gathered one is a plain tensor."""
    return sum((t.to_local() if hasattr(t, "to_local") else t).nbytes for t in tensors)


def state_bytes(model: Model, optimizer: torch.optim.Optimizer) -> str:
    """What this rank keeps between two steps."""
    parameters = list(model.parameters())
    moments = [t for state in optimizer.state.values() for t in state.values() if t.dim()]
    kept = {"parameters": parameters, "gradients": [p.grad for p in parameters], "optimizer": moments}
    return ", ".join(f"{name} {local_bytes(tensors)}" for name, tensors in kept.items())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--save-memory", action="store_true", help="activation checkpointing")
    parser.add_argument("--keep-gathered", action="store_true", help="keep the blocks after the forward pass")
    parser.add_argument("--load", type=Path, help="continue from this sharded checkpoint")
    parser.add_argument("--save", type=Path, help="write a sharded checkpoint and model.pt to this folder")
    args = parser.parse_args()

    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpu else "gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(0)  # the same weights on each rank
    model = shard(Model(save_memory=args.save_memory).to(device), args.precision, not args.keep_gathered)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)  # sees the shards, not the full parameters
    if args.load:
        weights, moments = state_dict.get_state_dict(model, optimizer)  # the layout on this number of ranks
        dcp.load({"model": weights, "optimizer": moments}, checkpoint_id=args.load)
        state_dict.set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)

    points = torch.randn(64, 64, generator=torch.Generator().manual_seed(1)).to(device)
    labels = points[:, :10].argmax(dim=1)
    for step in range(args.steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(points[rank::world_size]), labels[rank::world_size])
        gathered = local_bytes(list(model.parameters()))
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # a DTensor: the norm over all ranks
        optimizer.step()
        mean = loss.detach() / world_size
        dist.all_reduce(mean)
        print(f"rank {rank} step {step} loss {mean:.4f} norm {norm.full_tensor():.4f}", flush=True)
    print(f"rank {rank} bytes: {state_bytes(model, optimizer)}, after forward {gathered}", flush=True)

    if args.save:
        weights, moments = state_dict.get_state_dict(model, optimizer)  # each rank writes its own shards
        dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=args.save)
        options = state_dict.StateDictOptions(full_state_dict=True, cpu_offload=True)
        full = state_dict.get_model_state_dict(model, options=options)
        if rank == 0:  # the other ranks got an empty dict
            torch.save(full, args.save / "model.pt")
    dist.barrier()  # no rank leaves while another still communicates
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
