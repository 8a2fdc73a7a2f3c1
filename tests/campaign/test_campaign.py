"""A few trials of the campaign, two at a time; each can be repeated by its number."""

import subprocess
import sys
from pathlib import Path

TRIALS, SEED = 40, 3


def test_no_command_is_wrong_in_a_few_trials() -> None:
    argv = [sys.executable, "-m", "tests.campaign", f"--trials={TRIALS}", f"--seed={SEED}", "--jobs=2"]
    root = Path(__file__).parents[2]
    reply = subprocess.run(argv, cwd=root, capture_output=True, text=True, timeout=1500, check=False)
    assert f"\n{TRIALS} trials: " in reply.stdout, reply.stderr
    assert reply.returncode == 0, reply.stdout
