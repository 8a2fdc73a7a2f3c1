"""The bundled training against handwritten loops in the same ranks, and the time of its imports.

Two ranks on CPUs. Prints the medians over alternating rounds. On a GPU: gpu.sh.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TRAINING = HERE.parent / "training"
MODELS = {
    "MNIST MLP, batch 128": ["--task", "mnist", "--batch-size", "128", "--limit", "12800"],
    "CIFAR ResNet-18, batch 16": ["--task", "cifar10", "--batch-size", "16", "--limit", "128"],
}
ROUNDS, STARTS = 9, 5
IMPORTS = ("torch", "train_ddp", "torchvision")


def main() -> None:
    """Compare the loops for each model, then the imports."""
    for name, flags in MODELS.items():
        report(compare(name, "flat,loader", ROUNDS, flags, ranks=2))
    for name in IMPORTS:
        took = statistics.median(start(f"import {name}") for _ in range(STARTS))
        print(f"import {name}: {took:.2f} s", flush=True)


def compare(name: str, styles: str, rounds: int, flags: list[str], ranks: int) -> dict[str, Any]:
    """Return the result of the ranks."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command = [*torchrun, str(HERE / "training_ranks.py"), name, styles, str(rounds), *flags]
    out = subprocess.run(command, env=environment(), check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out.splitlines()[-1])


def environment() -> dict[str, str]:
    """Return the variables of the processes."""
    return {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": str(TRAINING)}


def report(result: dict[str, Any]) -> None:
    """Print the result."""
    for style, ratio in result["ratio"].items():
        speeds, (least, most) = result["images_per_second"], result["range"][style]
        print(
            f"{result['name']}: {speeds['bundled']:.0f} images/s; {style} loop: {speeds[style]:.0f}; "
            f"ratio {ratio:.2f}, from {least:.2f} to {most:.2f}",
            flush=True,
        )


def start(command: str) -> float:
    """Return the seconds of a Python process that runs `command`."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", command], env=environment(), check=True)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
