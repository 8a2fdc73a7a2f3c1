"""What to log of a run: the loss of all ranks, speed, gradient and memory for TensorBoard, and a trace of three steps."""

import argparse
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import profile, schedule
from torch.utils.tensorboard import SummaryWriter

EVERY, BATCH = 10, 64


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--run-dir", type=Path, default=Path("runs/watching"))
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    # [log]
    writer = SummaryWriter(args.run_dir) if rank == 0 else None  # one file, from one rank
    total, start = torch.zeros(()), time.perf_counter()
    trace = profile(
        schedule=schedule(wait=5, warmup=2, active=3, repeat=1),
        on_trace_ready=lambda done: done.export_chrome_trace(f"{args.run_dir}/trace-{rank}.json"),
    )
    args.run_dir.mkdir(parents=True, exist_ok=True)
    with trace:
        for step in range(1, args.steps + 1):
            x = torch.randn(BATCH, 32)
            loss = (model(x) - x.sum(dim=1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=10.0)
            optimizer.step()
            total += loss.detach()  # on the device: nothing is read in most steps
            trace.step()
            if step % EVERY:
                continue
            dist.all_reduce(total)  # all ranks take part, and one writes
            if writer:
                seconds = time.perf_counter() - start
                writer.add_scalar("loss", total.item() / EVERY / ranks, step)
                writer.add_scalar("samples per second", EVERY * BATCH * ranks / seconds, step)
                writer.add_scalar("norm of the gradient", norm.item(), step)
                writer.add_scalar("learning rate", optimizer.param_groups[0]["lr"], step)
                writer.add_scalar("memory in GiB", torch.cuda.max_memory_allocated() / 2**30, step)
                writer.flush()  # the job may end at any moment
            total, start = torch.zeros(()), time.perf_counter()
    # [/log]
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
