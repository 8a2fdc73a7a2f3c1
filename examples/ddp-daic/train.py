"""Train a small network on several GPUs. torchrun starts one process per GPU and sets RANK, LOCAL_RANK and WORLD_SIZE."""

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def dataset(size: int) -> TensorDataset:
    """Points in 16 dimensions, labelled by the sign of their sum. Replace this with your data."""
    points = torch.randn(size, 16, generator=torch.Generator().manual_seed(0))
    return TensorDataset(points, (points.sum(dim=1) > 0).long())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=64, help="of each process")
    args = parser.parse_args()

    use_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if use_gpu else torch.device("cpu")
    if use_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if use_gpu else "gloo")

    data = dataset(4096)
    sampler = DistributedSampler(data, seed=0)  # each process gets its own share of the data
    loader = DataLoader(data, args.batch_size, sampler=sampler)
    network = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2)).to(device)
    model = DistributedDataParallel(network)  # averages the gradients of all processes
    optimizer = torch.optim.AdamW(model.parameters())

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)  # another order in each epoch
        total = torch.zeros((), device=device)
        for points, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(points.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        if dist.get_rank() == 0:  # one process prints and saves
            print(f"epoch {epoch}: loss {total.item() / len(loader) / dist.get_world_size():.4f}")
            torch.save(network.state_dict(), "model.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
