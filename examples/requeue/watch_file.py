"""A script that watches STOP_FILE, as any language can: on one process, save and stop when the file appears."""

import json
import os
import sys
import time
from pathlib import Path

STATE, STEPS = Path("state.json"), int(os.environ.get("STEPS", "60"))

start = json.loads(STATE.read_text())["step"] if STATE.exists() else 0
print(f"starts at step {start}", flush=True)
for step in range(start, STEPS):
    time.sleep(1)  # your training step
    if Path(os.environ["STOP_FILE"]).exists():
        STATE.write_text(json.dumps({"step": step + 1}))
        sys.exit(75)
print(f"finished at step {STEPS}", flush=True)
