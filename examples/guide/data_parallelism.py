"""Data parallelism by hand: average the gradients. It equals DDP, and one process with the whole batch.

torchrun --standalone --nproc-per-node=2 data_parallelism.py
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

BATCH, STEPS = 32, 20


def new_model(device):
    """The same weights on every rank and in every run."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5)).to(device)


def batches(device):
    """The same batches on every rank; each rank takes its part of them."""
    random = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        yield (
            torch.randn(BATCH, 20, generator=random).to(device),
            torch.randint(5, (BATCH,), generator=random).to(device),
        )


def train(model, part, after_backward=lambda: None):
    """Train on the samples `part` of each batch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for x, y in batches(next(model.parameters()).device):
        optimizer.zero_grad()
        cross_entropy(model(x[part]), y[part]).backward()
        after_backward()
        optimizer.step()
    return model


# by hand: start
def average_gradients(model):
    """What DDP does while backward runs: the mean of the gradients over all ranks."""
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def by_hand(device, part):
    model = new_model(device)
    for parameter in model.parameters():  # DDP does so too: all ranks begin with the weights of rank 0
        dist.broadcast(parameter.data, src=0)
    return train(model, part, lambda: average_gradients(model))


# by hand: end
def with_ddp(device, part):
    return train(DistributedDataParallel(new_model(device)), part)


def one_process(device, part):
    return train(new_model(device), slice(None))


def without_communication(device, part):
    return train(new_model(device), part)


def difference(model, other):
    """The largest difference of two weights."""
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    return max((a - b).abs().max().item() for a, b in pairs)


def spread(model):
    """The largest difference of any rank's weights from the weights of rank 0."""
    flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    first = flat.clone()
    dist.broadcast(first, src=0)
    distance = (flat - first).abs().max()
    dist.all_reduce(distance, dist.ReduceOp.MAX)
    return distance.item()


def main():
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()

    part = slice(rank, None, ranks)
    expected = one_process(device, part)
    for kind in (by_hand, with_ddp, without_communication):
        model = kind(device, part)
        distance, apart = difference(model, expected), spread(model)
        if rank == 0:
            print(f"{kind.__name__:<22} from one process {distance:.0e}, between ranks {apart:.0e}")
    dist.barrier()  # no rank leaves while another still communicates
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
