"""Train a classifier that need not fit on one GPU, on samples in files."""

import argparse
import os
import re
import shutil
import signal
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.data import DataLoader, Dataset, DistributedSampler

signals: list[int] = []


def write_data(folder: Path, size: int, seed: int) -> None:
    """Ten patterns with noise, labelled by pattern. Replace this with your data."""
    patterns = torch.randn(10, 64, generator=torch.Generator().manual_seed(0))
    rng = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (size,), generator=rng)
    partial = folder.with_suffix(".partial")
    partial.mkdir(parents=True, exist_ok=True)
    for number, label in enumerate(labels.tolist()):
        torch.save((patterns[label] + 2 * torch.randn(64, generator=rng), label), partial / f"{number:05}.pt")
    partial.rename(folder)


class Samples(Dataset):
    """One file for each sample, read when it is needed."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.iterdir())  # the ranks must agree on the order

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.load(self.paths[index])


def save(folder: Path, state: dict) -> None:
    """Add a checkpoint, which gets its name when it is complete, and remove the older ones."""
    if not all(weight.to_local().isfinite().all() for weight in state["model"].values()):
        raise SystemExit("the weights are NaN or infinite, so the checkpoint before is kept")
    dcp.save(state, checkpoint_id=folder / "partial")  # each rank writes its part
    if dist.get_rank() != 0:
        return
    newest = folder / "{:05}-{:08}".format(*state["done"])
    (folder / "partial").rename(newest)
    directory = os.open(folder, os.O_RDONLY)
    os.fsync(directory)  # the new name reaches the disk before the old checkpoints go
    os.close(directory)
    for old in set(folder.glob("*-*")) - {newest}:
        shutil.rmtree(old)


def note_signals(*_: int) -> None:
    """Slurm sends one before the time limit, the other at preemption, to each process of the job step."""
    for each in (signal.SIGUSR2, signal.SIGTERM):
        signal.signal(each, lambda number, _: signals.append(number))


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
    parser.add_argument("--checkpoint", type=Path, default=Path(__file__).stem)
    parser.add_argument("--data", type=Path, default="data", help="written if it is absent")
    parser.add_argument("--workers", type=int, default=1, help="of each rank, to read samples ahead")
    args = parser.parse_args()

    note_signals()
    device = start()
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if args.batch_size % world_size:
        parser.error(f"--batch-size {args.batch_size} is not divisible by {world_size} ranks")
    torch.manual_seed(0)
    for name, size, seed in ("train", 8192, 1), ("test", 1000, 2):
        if rank == 0 and not (args.data / name).exists():
            write_data(args.data / name, size, seed)
    dist.barrier()  # the others wait for the files
    train, test = Samples(args.data / "train"), Samples(args.data / "test")
    sampler = DistributedSampler(train, drop_last=True)
    batch_size = args.batch_size // world_size
    ahead = {"num_workers": args.workers, "worker_init_fn": note_signals, "pin_memory": device.type == "cuda"}
    test_loader = DataLoader(test, batch_size, sampler=DistributedSampler(test, shuffle=False), **ahead)

    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    model.to(device)
    policy = MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=torch.float32, output_dtype=torch.float32)
    for layer in model:
        fully_shard(layer, mp_policy=policy)  # its weights are whole only while it computes
    fully_shard(model, mp_policy=policy)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)

    def state(epoch: int, step: int) -> dict:
        weights, momenta = get_state_dict(model, optimizer)
        return {"model": weights, "optimizer": momenta, "lr": scheduler.state_dict(), "done": (epoch, step)}

    epochs_done = steps_done = 0
    if newest := max(args.checkpoint.glob("*-*"), default=None):
        found = state(0, 0)
        dcp.load(found, checkpoint_id=newest)
        set_state_dict(model, optimizer, model_state_dict=found["model"], optim_state_dict=found["optimizer"])
        scheduler.load_state_dict(found["lr"])
        epochs_done, steps_done = found["done"]

    for epoch in range(epochs_done, args.epochs):
        sampler.set_epoch(epoch)  # another order in each epoch
        rest = list(sampler)[steps_done * batch_size :]
        loader = DataLoader(train, batch_size, sampler=rest, drop_last=True, **ahead)
        model.train()
        for step, (x, y) in enumerate(loader, steps_done + 1):
            torch.manual_seed(hash((epoch, step, rank)))  # for dropout: a resumed run draws the same numbers
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            if step % 10 and step < len(train) // args.batch_size:
                continue  # to read a number from the GPU is to wait for it: not in each step
            stop = torch.tensor(len(signals), device=device)
            dist.all_reduce(stop)  # one rank may see the signal earlier; all stop after the same step
            if stop > 0:
                save(args.checkpoint, state(epoch, step))
                if rank == 0 and "REQUEUE_FILE" in os.environ:  # torchrun turns the status 75 into 1
                    Path(os.environ["REQUEUE_FILE"]).touch()
                dist.barrier()  # as soon as one rank exits, torchrun and srun end the others
                dist.destroy_process_group()
                raise SystemExit(75)
        scheduler.step()
        accuracy = evaluate(model, test_loader, device)
        if rank == 0:
            print(f"epoch {epoch}: accuracy {accuracy:.4f}", flush=True)  # at once, also in a log file
        save(args.checkpoint, state(epoch + 1, step=0))
        steps_done = 0
    dist.barrier()  # no rank leaves while another still communicates
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
