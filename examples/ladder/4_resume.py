"""Train a classifier on several GPUs, in as many Slurm jobs as it takes."""

import argparse
import os
import re
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def make_data(size: int, seed: int) -> TensorDataset:
    """Ten patterns with noise, labelled by pattern. Replace this with your data."""
    patterns = torch.randn(10, 64, generator=torch.Generator().manual_seed(0))
    rng = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (size,), generator=rng)
    return TensorDataset(patterns[labels] + 2 * torch.randn(size, 64, generator=rng), labels)


def save(path: Path, state: dict) -> None:
    """Replace the file by a complete new one: Slurm may end the job at any moment."""
    if dist.get_rank() != 0:
        return
    if not all(weight.isfinite().all() for weight in state["model"].values()):
        raise SystemExit("the weights are NaN or infinite, so the checkpoint before is kept")
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def take_rank_from_slurm() -> None:
    """Set the variables that torchrun sets: srun without torchrun starts one process per rank, too."""
    os.environ["RANK"] = os.environ["SLURM_PROCID"]
    os.environ["LOCAL_RANK"] = os.environ["SLURM_LOCALID"]
    os.environ["WORLD_SIZE"] = os.environ["SLURM_STEP_NUM_TASKS"]  # SLURM_NTASKS is that of the job
    nodes = os.environ["SLURM_STEP_NODELIST"]  # such as gpu[03-04,17]
    os.environ["MASTER_ADDR"] = re.sub(r"\[(\d+).*|,.*", r"\1", nodes)  # the first one, which has rank 0
    os.environ["MASTER_PORT"] = str(20000 + int(os.environ["SLURM_JOB_ID"]) % 10000)  # jobs may share a node


def start() -> torch.device:
    """Choose the device of this rank and join the others."""
    if "RANK" not in os.environ:
        take_rank_from_slurm()
    if not torch.cuda.is_available():
        dist.init_process_group("gloo")
        return torch.device("cpu")
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank % torch.cuda.device_count())  # a task may see its own GPU only
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    return device


def evaluate(model: nn.Module, loader: DataLoader, device: torch.device) -> float:
    model.eval()
    with torch.no_grad():
        hits = torch.cat([model(x.to(device)).argmax(dim=1) == y.to(device) for x, y in loader])
    own = range(dist.get_rank(), len(loader.dataset), dist.get_world_size())
    correct = hits[: len(own)].sum()  # without the sample that the sampler repeats to make the ranks equal
    dist.all_reduce(correct)
    return correct.item() / len(loader.dataset)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64, help="of all ranks together")
    parser.add_argument("--checkpoint", type=Path, default="checkpoint.pt")
    args = parser.parse_args()

    device = start()
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if args.batch_size % world_size:
        parser.error(f"--batch-size {args.batch_size} is not divisible by {world_size} ranks")
    torch.manual_seed(0)
    train, test = make_data(8192, seed=1), make_data(1000, seed=2)
    sampler = DistributedSampler(train, drop_last=True)
    batch_size = args.batch_size // world_size
    loader = DataLoader(train, batch_size, sampler=sampler, drop_last=True)
    test_loader = DataLoader(test, batch_size, sampler=DistributedSampler(test, shuffle=False))

    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    model.to(device)
    model = nn.parallel.DistributedDataParallel(model)  # averages the gradients of all ranks
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)

    def state(epoch: int) -> dict:
        weights, momenta = get_state_dict(model, optimizer)
        return {"model": weights, "optimizer": momenta, "lr": scheduler.state_dict(), "done": epoch}

    epochs_done = 0
    if args.checkpoint.exists():
        found = torch.load(args.checkpoint, map_location="cpu")
        set_state_dict(model, optimizer, model_state_dict=found["model"], optim_state_dict=found["optimizer"])
        scheduler.load_state_dict(found["lr"])
        epochs_done = found["done"]

    for epoch in range(epochs_done, args.epochs):
        sampler.set_epoch(epoch)  # another order in each epoch
        torch.manual_seed(hash((epoch, rank)))  # for dropout: a resumed run draws the same numbers
        model.train()
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        scheduler.step()
        accuracy = evaluate(model, test_loader, device)
        if rank == 0:
            print(f"epoch {epoch}: accuracy {accuracy:.4f}", flush=True)  # at once, also in a log file
        save(args.checkpoint, state(epoch + 1))
    dist.barrier()  # no rank leaves while another still communicates
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
