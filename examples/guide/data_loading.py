"""Measures what the data loader costs: `torchrun --standalone --nproc-per-node=2 data_loading.py --workers 2`.

The data are JPEG files that it writes first; replace `Images` with your own Dataset.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import chain, islice, repeat
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from PIL import Image
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

BATCH, STEPS, WARM_UP = 32, 30, 3


# start-loader
class Images(Dataset):
    """The JPEG files of a folder; the label is the number before the first `_` of the name."""

    def __init__(self, folder: Path):
        self.paths = sorted(folder.glob("*.jpg"))  # the same order on each rank

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        path = self.paths[index]
        pixels = np.array(Image.open(path))  # opened here, in the worker
        return torch.from_numpy(pixels).permute(2, 0, 1), int(path.name.split("_")[0])


def make_loader(dataset: Dataset, batch_size: int, workers: int, seed: int = 0) -> DataLoader:
    """The samples of this rank; `batch_size` and `workers` count for one rank."""
    return DataLoader(
        dataset,
        batch_size,
        sampler=DistributedSampler(dataset, seed=seed, drop_last=True),
        num_workers=workers,
        pin_memory=torch.cuda.is_available(),  # lets copies to the GPU run in the background
        drop_last=True,
        persistent_workers=workers > 0,  # do not start the processes again in each epoch
        prefetch_factor=2 if workers > 0 else None,  # batches that each worker prepares in advance
        generator=torch.Generator().manual_seed(seed + dist.get_rank()),  # other random numbers on each rank
    )


def workers_of_rank() -> int:
    """The CPUs that this process may use, shared among the ranks of the node, less one for the rank itself."""
    cpus = len(os.sched_getaffinity(0)) // int(os.environ["LOCAL_WORLD_SIZE"])
    return max(0, cpus - 1)


def milliseconds(step: Callable, batches: Iterable) -> float:
    """The mean time of a step, without the first ones."""
    for number, batch in enumerate(islice(batches, WARM_UP + STEPS)):
        if number == WARM_UP:
            start = now()
        step(*batch)
    return (now() - start) / STEPS * 1000


def now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()  # wait for the GPU; otherwise the clock measures only the launches
    return time.perf_counter()


def make_step(device: torch.device) -> Callable:
    net = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10)).to(device)
    net(torch.zeros(1, 3, 96, 96, device=device))  # LazyLinear takes its size from the first input
    model = DistributedDataParallel(net)

    def step(images: torch.Tensor, labels: torch.Tensor) -> None:
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        images = images.float().div_(255)  # on the device: bytes travel, not floats
        nn.functional.cross_entropy(model(images), labels).backward()
        model.zero_grad()

    return step


def write_images(folder: Path, count: int) -> None:
    random = np.random.default_rng(0)
    for number in range(count):
        pixels = random.integers(0, 256, (96, 96, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number % 10}_{number}.jpg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, help="of each rank; default: from the CPUs")
    asked = parser.parse_args()
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None)
    workers = workers_of_rank() if asked.workers is None else asked.workers
    with tempfile.TemporaryDirectory() as folder:
        write_images(Path(folder), 512)
        loader = make_loader(Images(Path(folder)), BATCH, workers)
        step = make_step(device)
        with_loader = milliseconds(step, chain.from_iterable(repeat(loader)))
        repeated = milliseconds(step, repeat(next(iter(loader))))
    if dist.get_rank() == 0:
        print(f"{workers} workers: {with_loader:.1f} ms per step; one batch repeated: {repeated:.1f} ms")
        print(f"share of the loader: {max(0.0, 1 - repeated / with_loader):.0%}")
    dist.barrier()  # no rank leaves while another still communicates
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
