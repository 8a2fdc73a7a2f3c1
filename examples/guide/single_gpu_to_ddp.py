"""Train a classifier on several GPUs. `single_gpu_to_ddp_before.py` does the same on one.

torchrun --standalone --nproc-per-node=2 single_gpu_to_ddp.py
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS, BATCH, LR = 5, 64, 0.1


def points(samples=2048):
    """Points in the plane; the class is the quadrant."""
    x = torch.randn(samples, 2, generator=torch.Generator().manual_seed(0))
    return TensorDataset(x, (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long())


def main():
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)

    dataset = points()
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=BATCH // ranks, sampler=sampler)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        correct = torch.zeros((), device=device)
        for x, label in loader:
            x, label = x.to(device), label.to(device)
            output = model(x)
            optimizer.zero_grad()
            cross_entropy(output, label).backward()
            optimizer.step()
            correct += (output.argmax(dim=1) == label).sum()
        dist.all_reduce(correct)
        if rank == 0:
            print(f"epoch {epoch}: accuracy {correct.item() / sampler.total_size:.3f}", flush=True)
    if rank == 0:
        torch.save(model.module.state_dict(), "model.pt")
    dist.barrier()  # no rank leaves while another still communicates
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
