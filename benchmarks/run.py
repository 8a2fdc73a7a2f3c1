"""Runs all benchmarks: `make bench`."""

import subprocess
import sys
from pathlib import Path

for script in sorted(Path(__file__).parent.glob("*.py")):
    if script.name not in (
        "run.py",
        "gpu.py",
        "plain_ddp.py",
        "slow_link.py",
        "training_ranks.py",
        "large.py",
        "lint_public.py",
        "scale_start.py",
        "status_at_once.py",
        "scale_rank.py",
    ):
        subprocess.run([sys.executable, script], check=True)
