"""Starts one command per node at once, as srun does with one task per node: start.py FILE.

FILE is a list of commands in JSON.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path


def main(commands: list[list[str]]) -> int:
    """The highest exit status; a signal counts as in a shell. SIGTERM ends all commands."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    tasks = [
        subprocess.Popen(command, env={**os.environ, "SLURM_NODEID": str(node)})
        for node, command in enumerate(commands)
    ]
    try:
        codes = [task.wait() for task in tasks]
    finally:
        for task in tasks:
            task.kill()
    return max(code if code >= 0 else 128 - code for code in codes)


if __name__ == "__main__":
    sys.exit(main(json.loads(Path(sys.argv[1]).read_text())))
