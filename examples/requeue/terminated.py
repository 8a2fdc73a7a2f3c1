"""A program that saves on TERM and then exits with 0, as Hugging Face's Trainer does."""

import json
import os
import signal
import time
from pathlib import Path

RANK = os.environ.get("RANK", "0")
STATE, STEPS = Path(f"state-{RANK}.json"), int(os.environ.get("STEPS", "60"))
stop: list[int] = []

signal.signal(signal.SIGTERM, lambda number, _: stop.append(number))
step = json.loads(STATE.read_text())["step"] if STATE.exists() else 0
print(f"starts at step {step}", flush=True)
while step < STEPS and not stop:
    time.sleep(1)  # your training step
    step += 1
STATE.write_text(json.dumps({"step": step}))
if step == STEPS:  # finished: without this line, the job is requeued once more if the signal came meanwhile
    Path(os.environ["REQUEUE_FILE"]).unlink(missing_ok=True)
    print(f"finished at step {STEPS}", flush=True)
