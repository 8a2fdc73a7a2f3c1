"""The data: downloaded by one process while the others wait, and kept in memory by each rank."""

import socket
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.utils.data import TensorDataset
from torchvision import datasets

from .augment import augment_of
from .config import Config, Task
from .datasets import Digits, SyntheticCIFAR10, SyntheticMNIST
from .feed import Feed, RankBatches
from .process import Process, agree

DATASETS = {
    ("cifar", "cifar10"): datasets.CIFAR10,
    ("cifar", "synthetic"): SyntheticCIFAR10,
    ("cifar100", "cifar100"): datasets.CIFAR100,
    ("cifar100", "synthetic"): SyntheticCIFAR10,
    ("mnist", "mnist"): datasets.MNIST,
    ("mnist", "digits"): Digits,
    ("mnist", "synthetic"): SyntheticMNIST,
}
NETWORK_TIMEOUT = 20.0  # seconds without a reply; compute nodes often drop packets instead of rejecting them
FETCH = Path(__file__).parents[1] / "fetch_data.py"


@dataclass(frozen=True)
class Loaders:
    """One rank's part of the training and of the test data."""

    train: Feed
    test: Feed


def make_loaders(process: Process, config: Config) -> Loaders:
    """Download the data once, and load them. Every rank must call this, after joining the process group."""
    _fetch_once(process, config)
    train = _load(config, train=True, limit=config.limit)
    test = _load(config, train=False, limit=config.limit and max(config.limit // 5, 1))
    size = config.global_batch_size(process.world_size)
    ranks = (process.rank, process.world_size)
    part = size // config.accumulate
    batches = RankBatches(len(train), part, *ranks, seed=config.seed, multiple=config.accumulate)
    if not len(batches):
        agree(f"--batch-size {size} is more than the {len(train)} training samples. Use less.")
    test_feed = Feed(test, RankBatches(len(test), part, *ranks), process, config)
    return Loaders(Feed(train, batches, process, config, augment_of(config)), test_feed)


def fetch(task: Task, name: str, folder: Path) -> str | None:
    """Download the data set `name` into `folder` unless it exists. Returns an error message or None."""
    socket.setdefaulttimeout(NETWORK_TIMEOUT)
    try:
        DATASETS[task.name, name](folder, download=True)
    except Exception as error:  # any error must reach the waiting ranks
        reason = " ".join(str(error).split()).rstrip(".")
        return f"{name} is not in {folder.absolute()} and could not be downloaded: {reason}. " + _cure(
            name, folder, error
        )
    finally:
        socket.setdefaulttimeout(None)
    return None


def _fetch_once(process: Process, config: Config) -> None:
    # The storage may be shared or local to a node. The first rank downloads the data, then the first rank of
    # every other node does if it does not find the files. All ranks wait for both.
    turns = (process.rank == 0, process.local_rank == 0 and process.rank != 0)
    for my_turn in turns:
        agree(fetch(config.task, config.data, config.data_dir) if my_turn else None)


def _cure(name: str, folder: Path, error: Exception) -> str:
    if isinstance(error, ImportError):
        return "Install it, or use --data synthetic."
    if name in ("digits", "synthetic"):
        return "Use another --data-dir."
    command = f"{Path(sys.executable).name} {FETCH} {name} --data-dir {folder}"
    return f"Run `{command}` on a host with a network, such as a login node, or use --data synthetic."


def _load(config: Config, train: bool, limit: int | None) -> TensorDataset:
    dataset = DATASETS[config.task.name, config.data](config.data_dir, train=train)
    images, labels = torch.as_tensor(dataset.data)[:limit], torch.as_tensor(dataset.targets)[:limit]
    # MNIST's class holds (N, H, W) and CIFAR10's (N, H, W, C); the models take (N, C, H, W).
    images = images.unsqueeze(1) if images.ndim == 3 else images.permute(0, 3, 1, 2).contiguous()
    return TensorDataset(images, labels)
