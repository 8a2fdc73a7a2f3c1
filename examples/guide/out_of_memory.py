"""Predict the memory of a training step, and compare it with what the step allocates.

python out_of_memory.py --width 1024 --layers 8 --batch-size 256 --checkpoint
"""

import argparse
from collections.abc import Iterable

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

STATES = {"sgd": 1, "adamw": 2}
"Tensors of the size of the weights that the optimizer keeps: momentum; first and second moment."


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x)


class Model(nn.Module):
    def __init__(self, width: int, layers: int, checkpointed: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.checkpointed = checkpointed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return x


def size(tensors: Iterable[torch.Tensor]) -> int:
    """The bytes of these tensors; views of one storage count once."""
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(storages.values())


def predicted(model: nn.Module, optimizer: str, shards: int) -> dict[str, int]:
    """What the number of weights determines; FSDP divides all three by the number of ranks."""
    weights = size(model.parameters()) // shards
    return {"weights": weights, "gradients": weights, "optimizer": STATES[optimizer] * weights}


def activations(model: nn.Module, batch: torch.Tensor) -> tuple[torch.Tensor, int]:
    """The loss, and the bytes that the forward pass keeps for the backward pass."""
    kept: list[torch.Tensor] = []
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in weights:
            kept.append(tensor)
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = model(batch).square().mean()
    return loss, size(kept)


def table(rows: dict[str, int]) -> None:
    for name, value in rows.items():
        print(f"{name:<12} {value / 2**20:10.2f} MiB")
    print(f"{'sum':<12} {sum(rows.values()) / 2**20:10.2f} MiB")


parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=256)
parser.add_argument("--layers", type=int, default=4)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--optimizer", choices=STATES, default="adamw")
parser.add_argument("--checkpoint", action="store_true", help="recompute each block in the backward pass")
parser.add_argument("--shards", type=int, default=1, help="predict for FSDP on this many ranks")
options = parser.parse_args()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Model(options.width, options.layers, options.checkpoint).to(device)
batch = torch.randn(options.batch_size, options.width, device=device)
classes = {"sgd": lambda w: torch.optim.SGD(w, 0.01, momentum=0.9), "adamw": lambda w: torch.optim.AdamW(w)}
optimizer = classes[options.optimizer](model.parameters())

print("predicted from the number of weights")
table(predicted(model, options.optimizer, options.shards))
for _ in range(2):  # the optimizer allocates its state in the first step
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    optimizer.zero_grad()
    loss, saved = activations(model, batch)
    loss.backward()
    optimizer.step()
print("held by a step")
state = [value for entry in optimizer.state.values() for value in entry.values() if torch.is_tensor(value)]
table(
    {
        "weights": size(model.parameters()),
        "gradients": size(weight.grad for weight in model.parameters() if weight.grad is not None),
        "optimizer": size(value for value in state if value.dim()),
        "activations": saved,
    }
)
if device.type == "cuda":
    print(f"{'CUDA peak':<12} {torch.cuda.max_memory_allocated() / 2**20:10.2f} MiB")
