"""Train a classifier on several GPUs, with a batch that does not fit on them."""

import argparse
import contextlib
import os
import re
import signal
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
signals: list[int] = []


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
    parser.add_argument("--checkpoint", type=Path, default="checkpoint.pt")
    parser.add_argument("--precision", choices=PRECISIONS, default="bf16", help="fp16 for GPUs before A100")
    parser.add_argument("--accumulate", type=int, default=4, help="parts of a batch, one after the other")
    args = parser.parse_args()

    note_signals()
    device = start()
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if args.batch_size % (world_size * args.accumulate):
        parser.error(f"--batch-size {args.batch_size} is not divisible by {world_size} ranks * --accumulate")
    torch.manual_seed(0)
    train, test = make_data(8192, seed=1), make_data(1000, seed=2)
    sampler = DistributedSampler(train, drop_last=True)
    batch_size = args.batch_size // world_size
    test_loader = DataLoader(test, batch_size, sampler=DistributedSampler(test, shuffle=False))

    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    model.to(device)
    model = nn.parallel.DistributedDataParallel(model)  # averages the gradients of all ranks
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)
    scaler = torch.amp.GradScaler(device.type, enabled=args.precision == "fp16")  # small gradients are not 0

    def state(epoch: int, step: int) -> dict:
        weights, momenta = get_state_dict(model, optimizer)
        rest = {"lr": scheduler.state_dict(), "scaler": scaler.state_dict(), "done": (epoch, step)}
        return {"model": weights, "optimizer": momenta, **rest}

    epochs_done = steps_done = 0
    if args.checkpoint.exists():
        found = torch.load(args.checkpoint, map_location="cpu")
        set_state_dict(model, optimizer, model_state_dict=found["model"], optim_state_dict=found["optimizer"])
        scheduler.load_state_dict(found["lr"])
        scaler.load_state_dict(found["scaler"])
        epochs_done, steps_done = found["done"]

    for epoch in range(epochs_done, args.epochs):
        sampler.set_epoch(epoch)  # another order in each epoch
        rest = list(sampler)[steps_done * batch_size :]
        loader = DataLoader(train, batch_size, sampler=rest, drop_last=True)
        model.train()
        for step, (x, y) in enumerate(loader, steps_done + 1):
            torch.manual_seed(hash((epoch, step, rank)))  # for dropout: a resumed run draws the same numbers
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            for part in range(args.accumulate):
                last = part == args.accumulate - 1  # only this one averages the gradients of the ranks
                with contextlib.nullcontext() if last else model.no_sync():
                    with torch.autocast(device.type, PRECISIONS[args.precision], args.precision != "fp32"):
                        output = model(x.chunk(args.accumulate)[part])
                        loss = nn.functional.cross_entropy(output, y.chunk(args.accumulate)[part])
                    scaler.scale(loss / args.accumulate).backward()  # a mean of means: the parts are equal
            scaler.unscale_(optimizer)  # before anything that looks at gradients, such as clipping
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            scaler.step(optimizer)  # not if a gradient is infinite
            scaler.update()
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
