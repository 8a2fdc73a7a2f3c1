"""A DDP run that continues bit for bit after it was killed, or after a stop before the time limit."""

import argparse
import os
import random
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

UNFINISHED = 75  # the exit status for which the batch script requeues the job
SAMPLES, BATCH = 128, 16  # a batch of all ranks together
SAVE_EVERY, CHECK_EVERY = 4, 2  # steps; 10 or more where a step takes milliseconds
GPU = torch.cuda.is_available()
signals: list[int] = []


def any_rank_stops(device: torch.device) -> bool:
    """Whether a rank got the signal. All ranks get the same answer, so all stop after the same step.

    The answer is read from the GPU, which the CPU then waits for: not in each step.
    """
    asked = torch.tensor(len(signals), device=device)
    dist.all_reduce(asked)
    return bool(asked)


def rows_of(step: int) -> Tensor:
    """The samples of a global batch. They follow from the step alone: its number is the place in the data."""
    epoch, batch = divmod(step, SAMPLES // BATCH)
    return torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(epoch)).split(BATCH)[batch]


# [save]
def save(file: Path, state: dict) -> None:
    """Collect the random states of all ranks on rank 0, write beside the old file, then replace it."""
    if not all(weight.isfinite().all() for weight in state["model"].values()):  # the same on all ranks
        raise SystemExit("the weights are NaN or infinite, so the checkpoint before is kept")
    random_state = [random.getstate(), torch.get_rng_state(), torch.cuda.get_rng_state() if GPU else None]
    of_all_ranks = [None] * dist.get_world_size()
    dist.all_gather_object(of_all_ranks, random_state)
    if dist.get_rank() == 0:
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_suffix(".new")
        with new.open("wb") as stream:
            torch.save(state | {"random": of_all_ranks}, stream)
            stream.flush()
            os.fsync(stream.fileno())  # the bytes reach the disk before the name does
        new.replace(file)
    dist.barrier()


def load(file: Path, parts: dict) -> int:
    """Restore all parts on each rank, and return the number of finished steps."""
    if not file.exists():
        return 0
    # `cuda:0` in the file is rank 0's GPU, so load to the CPU; load_state_dict copies to this rank's device.
    saved = torch.load(file, map_location="cpu", weights_only=True)
    for name, part in parts.items():
        part.load_state_dict(saved[name])
    if len(saved["random"]) == dist.get_world_size():  # on another number of ranks, random states start anew
        python, cpu, cuda = saved["random"][dist.get_rank()]
        random.setstate(python)
        torch.set_rng_state(cpu)
        torch.cuda.set_rng_state(cuda) if GPU else None
    return saved["step"]


# [/save]
def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--run-dir", type=Path, default=Path("runs/checkpoints"))
    parser.add_argument("--send", nargs=2, type=int, help="SIGNAL STEP: the last rank sends it to itself")
    args = parser.parse_args()

    # Only note the signal: the handler may run in the middle of a collective.
    signal.signal(signal.SIGUSR2, lambda number, _: signals.append(number))
    dist.init_process_group("nccl" if GPU else "gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if GPU else torch.device("cpu")
    torch.cuda.set_device(device) if GPU else None
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 2)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    ddp = DistributedDataParallel(model)
    points = torch.randn(SAMPLES, 16, generator=torch.Generator().manual_seed(2))
    labels = (points.sum(dim=1) > 0).long()

    torch.manual_seed(1 + rank)  # dropout differs between ranks
    # `model`, not `ddp`, whose names start with `module.`
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    file = args.run_dir / "checkpoint.pt"
    first = load(file, parts)
    print(f"rank {rank} of {world_size} starts at step {first}", flush=True)
    for step in range(first, args.steps):
        if args.send and args.send[1] == step and first == 0 and rank == world_size - 1:
            os.kill(os.getpid(), args.send[0])
        mine = rows_of(step)[rank::world_size]
        optimizer.zero_grad()
        nn.functional.cross_entropy(ddp(points[mine].to(device)), labels[mine].to(device)).backward()
        optimizer.step()
        schedule.step()
        stops = (step + 1) % CHECK_EVERY == 0 and any_rank_stops(device)
        if stops or (step + 1) % SAVE_EVERY == 0:
            save(file, {name: part.state_dict() for name, part in parts.items()} | {"step": step + 1})
        if stops:
            if rank == 0 and "REQUEUE_FILE" in os.environ:  # torchrun turns every nonzero status into 1
                Path(os.environ["REQUEUE_FILE"]).touch()
            sys.exit(UNFINISHED)
    weights = sum(p.double().abs().sum().item() for p in model.parameters())
    print(f"rank {rank} done: weights {weights:.9f}", flush=True)
    dist.barrier()  # no rank leaves while another still communicates
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
