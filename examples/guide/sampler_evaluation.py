"""Accuracy on several ranks: with DistributedSampler some samples count twice; here each counts once.

torchrun --standalone --nproc-per-node=2 sampler_evaluation.py
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset

SAMPLES = 101  # odd, so that two ranks cannot have equal shares


class First(nn.Module):
    """A classifier with known answers: it predicts class 1 where the input is 1."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return torch.stack([torch.full_like(x, 0.5), self.scale * x], dim=1)


# exact: start
def every_sample_once(dataset, rank, ranks):
    """Rank r evaluates the samples r, r + ranks, r + 2 * ranks, ...: unequal shares, nothing twice."""
    return DataLoader(Subset(dataset, range(rank, len(dataset), ranks)), batch_size=16)


@torch.no_grad()
def accuracy(model, loader, device):
    """Sum the counts over all ranks, then divide once. `model` is the bare module, not DDP."""
    model.eval()
    counts = torch.zeros(2, dtype=torch.int64, device=device)  # correct, total
    for x, label in loader:
        correct = model(x.to(device)).argmax(dim=1) == label.to(device)
        counts += torch.tensor([correct.sum(), correct.numel()], device=device)
    dist.all_reduce(counts)
    correct, total = counts.tolist()
    return correct, total


# exact: end
def main():
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()

    # The model is wrong about sample 0 only; DistributedSampler repeats the first samples to fill up.
    inputs, labels = torch.ones(SAMPLES), torch.ones(SAMPLES, dtype=torch.int64)
    inputs[0] = 0
    dataset = TensorDataset(inputs, labels)
    model = DistributedDataParallel(First().to(device))

    padded = DataLoader(dataset, batch_size=16, sampler=DistributedSampler(dataset, shuffle=False))
    for name, loader in (
        ("DistributedSampler", padded),
        ("every sample once", every_sample_once(dataset, rank, ranks)),
    ):
        correct, total = accuracy(model.module, loader, device)
        if rank == 0:
            print(f"{name:<18} {correct} of {total} correct: {correct / total:.4%}")
    dist.barrier()  # no rank leaves while another still communicates
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
