"""The bundled training, compared with a minimal loop for the same model and batch in the same ranks.

Two ranks on CPUs; with `--device cuda` one on a GPU. Prints the median and the range of the rounds.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

RANKS = Path(__file__).with_name("training_ranks.py")
TRAINING = Path(__file__).parent.parent / "training"
CPU = {
    "MNIST MLP, batch 128": ["mnist", "--model", "mlp", "--batch-size", "128"],
    "CIFAR ResNet-18, batch 16": ["cifar", "--model", "resnet18", "--batch-size", "16", "--limit", "128"],
}
FAST = ["--device", "cuda", "--precision", "bf16", "--channels-last", "--compile", "--batch-size", "512"]
GPU = {
    "CIFAR-100 WideResNet-28-10, batch 512": ["cifar100", "--model", "wideresnet", *FAST],
    "CIFAR-10 ResNet-18, batch 512": ["cifar", "--model", "resnet18", *FAST],
}


def main() -> None:
    """Start the ranks for each model."""
    gpu = sys.argv[1:] == ["--device", "cuda"]
    threads = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    for name, words in (GPU if gpu else CPU).items():
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                [*torchrun, f"--nproc-per-node={1 if gpu else 2}", RANKS, name, folder, *words],
                env=os.environ | threads | {"PYTHONPATH": str(TRAINING)},
                check=True,
            )


if __name__ == "__main__":
    main()
