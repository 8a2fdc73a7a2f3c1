"""Compares gradient accumulation with one large batch: `torchrun --standalone --nproc-per-node=2 accumulation.py`."""

import os
from collections.abc import Callable
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

BATCHES, BATCH, ACCUMULATE = 11, 4, 4
"Each rank has 11 small batches of 4 samples, in groups of 4, 4 and 3."

Batch = tuple[torch.Tensor, torch.Tensor]
Group = list[Batch]
Weight = Callable[[torch.Tensor, Group], float]


# start-weights
def share(labels: torch.Tensor, group: Group) -> float:
    """The share of a small batch in the samples of its group."""
    return len(labels) / sum(len(others) for _, others in group)


def constant(labels: torch.Tensor, group: Group) -> float:
    return 1 / ACCUMULATE


def undivided(labels: torch.Tensor, group: Group) -> float:
    return 1.0


# end-weights
# start-train
def train(model: DistributedDataParallel, groups: list[Group], weight: Weight, sync_all: bool = False) -> int:
    """Take one step of the optimizer for each group of small batches; return the number of steps."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2)
    for group in groups:
        for number, (inputs, labels) in enumerate(group, 1):
            # Only the last backward pass of a group averages the gradients of the ranks.
            with nullcontext() if sync_all or number == len(group) else model.no_sync():
                loss = cross_entropy(model(inputs), labels)
                (loss * weight(labels, group)).backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()  # once for each step of the optimizer, not for each small batch
    return schedule.last_epoch


# end-train
def make_model(norm: bool, device: torch.device) -> tuple[DistributedDataParallel, list[int]]:
    """The same initial model each time, and a list that receives the size of each all-reduce."""
    torch.manual_seed(0)
    norms = [nn.BatchNorm1d(16)] if norm else []
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(8, 16), *norms, nn.ReLU(), nn.Linear(16, 3)).to(device)
    )
    sizes: list[int] = []
    model.register_comm_hook(sizes, average)
    return model, sizes


def average(sizes: list[int], bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average the gradients as DDP does without a hook, and note it."""
    sizes.append(bucket.buffer().numel())
    work = dist.all_reduce(bucket.buffer().div_(dist.get_world_size()), async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


def make_groups(device: torch.device) -> tuple[list[Group], list[Group]]:
    """The samples of this rank in groups of small batches, and with one large batch for each group."""
    generator = torch.Generator().manual_seed(dist.get_rank())
    inputs = torch.randn(BATCHES, BATCH, 8, generator=generator).to(device)
    batches = [(batch, batch[:, :3].argmax(dim=1)) for batch in inputs]
    groups = [batches[start : start + ACCUMULATE] for start in range(0, BATCHES, ACCUMULATE)]
    large = [[tuple(map(torch.cat, zip(*group, strict=True)))] for group in groups]
    return groups, large


def compare(device: torch.device) -> None:
    groups, large = make_groups(device)
    variants = {
        "one large batch": (large, share, False, False),
        "accumulated": (groups, share, False, False),
        "accumulated, without no_sync": (groups, share, False, True),
        "loss not divided": (groups, undivided, False, False),
        "loss / 4, also in the group of 3": (groups, constant, False, False),
        "incomplete group dropped": (groups[:-1], share, False, False),
        "one large batch, BatchNorm": (large, share, True, False),
        "accumulated, BatchNorm": (groups, share, True, False),
    }
    reference: dict[bool, list[torch.Tensor]] = {}
    if dist.get_rank() == 0:
        print(f"{'':32}  steps  all-reduces  largest difference")
    for name, (data, weight, norm, sync_all) in variants.items():
        model, sizes = make_model(norm, device)
        steps = train(model, data, weight, sync_all)
        weights = [parameter.detach() for parameter in model.parameters()]
        pairs = zip(weights, reference.setdefault(norm, weights), strict=True)
        difference = max((one - other).abs().max().item() for one, other in pairs)
        if dist.get_rank() == 0:
            print(f"{name:32}  {steps:5}  {len(sizes):11}  {difference:18.0e}")


def main() -> None:
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None)
    compare(device)
    dist.barrier()  # no rank leaves while another still communicates
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
