"""The data: put in place by one process, held in memory by each rank, and cut into its part of each batch."""

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Sampler, TensorDataset
from torchvision import datasets

from .config import Config
from .datasets import Digits, SyntheticCIFAR10, SyntheticMNIST
from .process import Process, agree

Batch = tuple[Tensor, ...]  # images, uint8 (N, C, H, W), and labels, int64 (N,)

DATASETS = {
    ("cifar", "cifar10"): datasets.CIFAR10,
    ("cifar", "synthetic"): SyntheticCIFAR10,
    ("mnist", "mnist"): datasets.MNIST,
    ("mnist", "digits"): Digits,
    ("mnist", "synthetic"): SyntheticMNIST,
}
NETWORK_TIMEOUT = 20.0  # seconds without an answer; compute nodes often drop packets instead of refusing them


class RankBatches(Sampler[list[int]]):
    """One rank's part of every batch: an epoch is cut into global batches, each dealt out to the ranks.

    Every rank has the same number of parts, and no sample is padded or repeated. In training, a last batch
    that is not full is left out; in testing it stays, and a rank's part of it may be empty.
    """

    def __init__(
        self, samples: int, batch_size: int, rank: int, world_size: int, seed: int | None = None
    ) -> None:
        """Train by `seed`: shuffled anew each epoch; without one, test: every sample in order."""
        self.samples, self.batch_size = samples, batch_size
        self.rank, self.world_size = rank, world_size
        self.seed, self.epoch = seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch, and so the order; Lightning calls this by itself."""
        self.epoch = epoch

    def __len__(self) -> int:
        full, rest = divmod(self.samples, self.batch_size)
        return full + (self.seed is None and rest > 0)

    def __iter__(self) -> Iterator[list[int]]:
        order = self._order()
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            yield order[start : start + self.batch_size][self.rank :: self.world_size]

    def _order(self) -> list[int]:
        if self.seed is None:
            return list(range(self.samples))
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        return torch.randperm(self.samples, generator=generator).tolist()


@dataclass(frozen=True)
class Loaders:
    """One rank's loaders; `batches` is the training sampler, whose epoch is to be set."""

    train: DataLoader[Batch]
    test: DataLoader[Batch]
    batches: RankBatches


def make_loaders(process: Process, config: Config) -> Loaders:
    """Put the data in place, once, and load them; every rank calls this, after the process group exists."""
    _fetch_once(process, config)
    train = _load(config, train=True, limit=config.limit)
    test = _load(config, train=False, limit=config.limit and max(config.limit // 5, 1))
    share = (config.batch_size, process.rank, process.world_size)
    batches = RankBatches(len(train), *share, seed=config.seed)
    if not len(batches):
        agree(f"--batch-size {config.batch_size} is more than the {len(train)} training samples. Use less.")
    test_loader = _loader(test, RankBatches(len(test), *share), process, config)
    return Loaders(_loader(train, batches, process, config), test_loader, batches)


def _fetch_once(process: Process, config: Config) -> None:
    # Storage may be shared by all nodes or be each node's own: the first rank fetches for all, then the first
    # rank of every other node looks, and fetches only if it cannot see the files. Everyone waits for both.
    turns = (process.rank == 0, process.local_rank == 0 and process.rank != 0)
    for my_turn in turns:
        agree(_fetch(config) if my_turn else None)


def _fetch(config: Config) -> str | None:
    socket.setdefaulttimeout(NETWORK_TIMEOUT)
    try:
        DATASETS[config.task, config.data](config.data_dir, download=True)
    except Exception as error:  # whatever it is, the ranks that wait must hear of it
        reason = " ".join(str(error).split()).rstrip(".")
        place = config.data_dir.absolute()
        return f"{config.data} is not in {place} and could not be put there: {reason}. {_cure(config, error)}"
    finally:
        socket.setdefaulttimeout(None)
    return None


def _cure(config: Config, error: Exception) -> str:
    if isinstance(error, ImportError):
        return "Install it, or use --data synthetic."
    if config.data in ("digits", "synthetic"):
        return "Use another --data-dir."
    return "Copy it there from a machine with a network, or use --data synthetic."


def _load(config: Config, train: bool, limit: int | None) -> TensorDataset:
    dataset = DATASETS[config.task, config.data](config.data_dir, train=train)
    images, labels = torch.as_tensor(dataset.data)[:limit], torch.as_tensor(dataset.targets)[:limit]
    # MNIST's class holds (N, H, W) and CIFAR10's (N, H, W, C); the models take (N, C, H, W).
    images = images.unsqueeze(1) if images.ndim == 3 else images.permute(0, 3, 1, 2).contiguous()
    return TensorDataset(images, labels)


def _loader(data: TensorDataset, batches: RankBatches, process: Process, config: Config) -> DataLoader[Batch]:
    workers = min(config.workers, len(os.sched_getaffinity(0)))
    return DataLoader(
        data,
        sampler=batches,
        batch_size=None,  # the sampler gives whole batches, which a TensorDataset fetches in one go
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=process.device.type == "cuda",
        # Its own, so that fetching leaves the generator of the augmentation alone.
        generator=torch.Generator().manual_seed(config.seed),
    )
