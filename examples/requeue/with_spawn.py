"""torch.multiprocessing.spawn: the ranks end with 75 on USR2, and the process that started them does too."""

import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

CHECKPOINT, STEPS = Path("spawn.pt"), int(os.environ.get("STEPS", "60"))
EVERY = 2  # steps; 10 or more where a step takes milliseconds, because reading from the GPU waits for it
asked: list[int] = []


def train(local_rank: int, local_ranks: int) -> None:
    """One rank. It installs the handler itself, because it is a new Python process."""
    signal.signal(signal.SIGUSR2, lambda number, _: asked.append(number))
    rank = int(os.environ["NODE_RANK"]) * local_ranks + local_rank
    # gloo, or nccl with the flag on the GPU
    dist.init_process_group("gloo", rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
    model = torch.nn.Linear(1, 1)
    start = 0
    if CHECKPOINT.exists():
        saved = torch.load(CHECKPOINT)
        model.load_state_dict(saved["model"])
        start = saved["step"]
    if rank == 0:
        print(f"starts at step {start}", flush=True)
    for step in range(start, STEPS):
        time.sleep(1)  # your training step
        if (step + 1) % EVERY == 0:
            stop(step + 1, model)
    if rank == 0:
        print(f"finished at step {STEPS}", flush=True)
    dist.destroy_process_group()


def stop(step: int, model: torch.nn.Module) -> None:
    """Save and exit if any rank has the signal. All ranks call this after the same steps."""
    flag = torch.tensor(float(bool(asked)))
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    if flag:
        if dist.get_rank() == 0:
            torch.save({"model": model.state_dict(), "step": step}, "spawn.part")
            Path("spawn.part").replace(CHECKPOINT)
            Path(os.environ["REQUEUE_FILE"]).write_text(str(step))
        dist.barrier()
        sys.exit(75)


if __name__ == "__main__":
    local_ranks = int(os.environ["LOCAL_WORLD_SIZE"])
    try:
        mp.spawn(train, args=(local_ranks,), nprocs=local_ranks)
    except mp.ProcessExitedException as ended:  # without this, Python prints a traceback and exits with 1
        sys.exit(ended.exit_code)
