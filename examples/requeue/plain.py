"""Plain PyTorch under torchrun: on USR2, all ranks save after the same step, and stop."""

import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

CHECKPOINT, STEPS = Path("plain.pt"), int(os.environ.get("STEPS", "60"))
EVERY = 2  # steps; 10 or more where a step takes milliseconds, because reading from the GPU waits for it
asked = False


def note(*_: object) -> None:
    """Only note the signal: saving here could interrupt a collective."""
    global asked
    asked = True


def stop(step: int) -> None:
    """Save and exit if any rank has the signal. All ranks call this after the same steps."""
    flag = torch.tensor(float(asked))
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    if flag:
        if dist.get_rank() == 0:
            torch.save({"model": model.state_dict(), "step": step}, "plain.part")
            Path("plain.part").replace(CHECKPOINT)
            Path(os.environ["REQUEUE_FILE"]).write_text(str(step))
        dist.barrier()
        sys.exit(75)


signal.signal(signal.SIGUSR2, note)
dist.init_process_group("gloo")  # or nccl, with the flag on the GPU
model = torch.nn.Linear(1, 1)
start = 0
if CHECKPOINT.exists():
    saved = torch.load(CHECKPOINT)
    model.load_state_dict(saved["model"])
    start = saved["step"]
if dist.get_rank() == 0:
    print(f"starts at step {start}", flush=True)
for step in range(start, STEPS):
    time.sleep(1)  # your training step
    if (step + 1) % EVERY == 0:
        stop(step + 1)
if dist.get_rank() == 0:
    print(f"finished at step {STEPS}", flush=True)
dist.destroy_process_group()
