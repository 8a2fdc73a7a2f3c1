"""Show how much memory of its own each data-loader worker needs, by the type of the dataset's container.

python out_of_memory_workers.py --container list
"""

import argparse
from pathlib import Path

import numpy as np
from torch.utils.data import DataLoader, Dataset

NAMES = 1_000_000
STRIDE = 20  # reading one name writes to its page, so one in twenty is enough to touch them all


class Files(Dataset[tuple[str, int]]):
    """File names, as image data sets hold them, and the private memory of the process that reads one."""

    def __init__(self, container: str) -> None:
        names = (f"train/class_{number % 1000:04}/image_{number:08}.jpg" for number in range(NAMES))
        self.names = list(names) if container == "list" else np.fromiter(names, dtype="U38", count=NAMES)

    def __len__(self) -> int:
        return NAMES // STRIDE

    def __getitem__(self, index: int) -> tuple[str, int]:
        last = index == len(self) - 1
        return str(self.names[index * STRIDE]), private_memory() if last or index == 0 else 0


def private_memory() -> int:
    """KiB that this process has written and no other process shares (Linux)."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty"))


def growth(container: str) -> float:
    """MiB by which the private memory of one worker grows while it reads the names."""
    loader = DataLoader(Files(container), batch_size=1000, num_workers=1)
    first, last = [int(value) for _, column in loader for value in column if value]
    return (last - first) / 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--container", choices=("list", "array"), default="list")
    options = parser.parse_args()
    print(f"{options.container}: {growth(options.container):.0f} MiB more in each worker")
