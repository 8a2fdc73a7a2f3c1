"""Starts a program once per node, as srun does: start.py NODES COMMAND..."""

import os
import subprocess
import sys


def main(nodes: int, command: list[str]) -> int:
    """The highest exit status."""
    tasks = [
        subprocess.Popen(command, env={**os.environ, "SLURM_NODEID": str(node)}) for node in range(nodes)
    ]
    try:
        return max(task.wait() for task in tasks)
    finally:
        for task in tasks:
            task.kill()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
