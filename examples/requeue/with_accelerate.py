"""accelerate: its trigger is the all-reduce, and save_state and load_state keep the whole state."""

import os
import signal
import sys
import time
from pathlib import Path

import torch
from accelerate import Accelerator

STEPS = int(os.environ.get("STEPS", "60"))
EVERY = 2  # steps; 10 or more where a step takes milliseconds, because the trigger is read from the GPU
accelerator = Accelerator(cpu="NO_GPU" in os.environ)
asked: list[int] = []
signal.signal(signal.SIGUSR2, lambda number, _: asked.append(number))
model = accelerator.prepare(torch.nn.Linear(1, 1))
step = 0
if Path("accelerate-state/step").exists():
    accelerator.load_state("accelerate-state")
    step = int(Path("accelerate-state/step").read_text())
accelerator.print(f"starts at step {step}", flush=True)
while step < STEPS:
    time.sleep(1)  # your training step
    step += 1
    if asked:
        accelerator.set_trigger()
    if step % EVERY == 0 and accelerator.check_trigger():
        accelerator.save_state("accelerate-state")
        if accelerator.is_main_process:
            Path("accelerate-state/step").write_text(str(step))
            Path(os.environ["REQUEUE_FILE"]).write_text(str(step))
        accelerator.wait_for_everyone()
        sys.exit(75)
accelerator.print(f"finished at step {STEPS}", flush=True)
accelerator.end_training()
