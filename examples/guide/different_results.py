"""Isolates reasons why two ranks learn other weights than one: `torchrun --standalone --nproc-per-node=2 different_results.py`.

Each rank also trains the model of one GPU, and compares.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

SAMPLES, BATCH, EPOCHS = 64, 16, 4


class MeanOfRanks(torch.autograd.Function):
    """The mean of a tensor over the ranks, with a gradient."""

    @staticmethod
    def forward(ctx, value: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(mean := value / dist.get_world_size())
        return mean

    backward = forward  # each rank's loss depends on the value of each rank


class BatchNormOfAllRanks(nn.BatchNorm1d):
    """What nn.SyncBatchNorm computes; that one runs only on GPUs."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        mean = MeanOfRanks.apply(inputs.mean(dim=0))
        variance = MeanOfRanks.apply((inputs - mean).square().mean(dim=0))
        return (inputs - mean) / (variance + self.eps).sqrt() * self.weight + self.bias


def rounded(values: torch.Tensor) -> torch.Tensor:
    bits = (values.detach().view(torch.int32) + 0x1000) & ~0x1FFF
    return values + (bits.view(torch.float32) - values).detach()  # the gradient passes unchanged


class TF32Linear(nn.Linear):
    """A linear layer whose factors keep 10 bits of the fraction, as in the matrix units of a GPU."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(rounded(inputs), rounded(self.weight), self.bias)


# start-case
@dataclass(frozen=True)
class Case:
    """How one of the two trainings is done."""

    batch: int = BATCH  # of all ranks together
    lr: float = 0.1
    layer: Callable[[int], nn.Module] = nn.Identity
    linear: type[nn.Linear] = nn.Linear
    dtype: torch.dtype = torch.float32
    order_seed: int = 0
    samples: int = SAMPLES
    exact_mean: bool = False


SAME = Case()
CASES = {  # name: (one GPU, two ranks)
    "nothing but the order of sums": (SAME, SAME),
    "the same in fp64": (Case(dtype=torch.float64), Case(dtype=torch.float64)),
    "batch size per rank kept": (SAME, Case(batch=2 * BATCH)),
    "learning rate x ranks": (SAME, Case(lr=0.2)),
    "other order of samples": (SAME, Case(order_seed=1)),
    "BatchNorm of each rank": (Case(layer=nn.BatchNorm1d), Case(layer=nn.BatchNorm1d)),
    "BatchNorm of all ranks": (Case(layer=nn.BatchNorm1d), Case(layer=BatchNormOfAllRanks)),
    "dropout": (Case(layer=lambda _: nn.Dropout()), Case(layer=lambda _: nn.Dropout())),
    "parts of unequal size": (Case(samples=61), Case(samples=61)),
    "unequal size, exact mean": (Case(samples=61), Case(samples=61, exact_mean=True)),
    "TF32": (SAME, Case(linear=TF32Linear)),
}


def train(case: Case, device: torch.device, rank: int = 0, ranks: int = 1) -> list[torch.Tensor]:
    """The weights at the end, of one process or of `ranks` ranks with DDP."""
    torch.manual_seed(0)
    inputs = torch.randn(case.samples, 16).to(device, case.dtype)
    labels = inputs[:, :5].argmax(dim=1)
    net = nn.Sequential(case.linear(16, 32), case.layer(32), nn.ReLU(), case.linear(32, 5)).to(
        device, case.dtype
    )
    model = DistributedDataParallel(net) if ranks > 1 else net
    optimizer = torch.optim.SGD(net.parameters(), case.lr, momentum=0.9)
    order = torch.Generator().manual_seed(case.order_seed)
    for _ in range(EPOCHS):
        for batch in torch.randperm(case.samples, generator=order).split(case.batch):
            part = batch[rank::ranks]  # the share of this rank in the global batch
            loss = cross_entropy(model(inputs[part]), labels[part])
            # DDP averages the means of the ranks. That is the mean of all samples only if the parts are equal.
            weight = len(part) * ranks / len(batch) if case.exact_mean else 1.0
            (loss * weight).backward()
            optimizer.step()
            optimizer.zero_grad()
    return [parameter.detach() for parameter in net.parameters()]


def main() -> None:
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for name, (one, several) in CASES.items():
        pairs = zip(train(one, device), train(several, device, rank, ranks), strict=True)
        difference = max((a - b).abs().max().item() for a, b in pairs)
        if rank == 0:
            print(f"{name:30}  {difference:.0e}")
    dist.barrier()  # no rank leaves while another still communicates
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
