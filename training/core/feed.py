"""A rank's batches: its part of each, in an order that any number of ranks share, augmented on the device."""

import os
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Sampler, TensorDataset

from .augment import Augment
from .config import Config
from .process import Process

Batch = tuple[Tensor, ...]  # images, uint8 (N, C, H, W), and labels, int64 (N,)


class RankBatches(Sampler[list[int]]):
    """One rank's part of every batch: an epoch is cut into global batches, each dealt out to the ranks.

    Every rank has the same number of parts, and no sample is padded or repeated. In training, a last batch
    that is not full is left out; in testing it stays, and a rank's part of it may be empty.
    """

    def __init__(
        self,
        samples: int,
        batch_size: int,
        rank: int,
        world_size: int,
        seed: int | None = None,
        multiple: int = 1,
    ) -> None:
        """Train by `seed`: shuffled anew each epoch; without one, test: every sample in order.

        `multiple`: an epoch has a multiple of this many batches, those of one step.
        """
        self.samples, self.batch_size, self.multiple = samples, batch_size, multiple
        self.rank, self.world_size = rank, world_size
        self.seed, self.epoch, self.start = seed, 0, 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch, and so the order; Lightning calls this by itself."""
        if epoch != self.epoch:
            self.epoch, self.start = epoch, 0

    def set_position(self, epoch: int, start: int) -> None:
        """Go on in the midst of an epoch, at batch number `start`."""
        self.epoch, self.start = epoch, start

    def __len__(self) -> int:
        """Return the batches of a whole epoch."""
        full, rest = divmod(self.samples, self.batch_size)
        return full - full % self.multiple + (self.seed is None and rest > 0)

    def __iter__(self) -> Iterator[list[int]]:
        return (part.tolist() for part in self.parts())

    def parts(self, device: torch.device | None = None) -> Iterator[Tensor]:
        """Yield the indices of each part, from `start` on, as tensors on `device`."""
        order = self._order().to(device)
        for start in range(self.start * self.batch_size, len(self) * self.batch_size, self.batch_size):
            yield order[start : start + self.batch_size][self.rank :: self.world_size]

    def _order(self) -> Tensor:
        if self.seed is None:
            return torch.arange(self.samples)
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        return torch.randperm(self.samples, generator=generator)


class Feed:
    """This rank's batches of one epoch, on the device and, in training, augmented.

    Its `state_dict` is where it stands, which Lightning saves and restores by itself.
    """

    def __init__(
        self,
        dataset: TensorDataset,
        batches: RankBatches,
        process: Process,
        config: Config,
        augment: Augment | None = None,
    ) -> None:
        self.dataset, self.batches = dataset, batches
        self.process, self.augment = process, augment
        self.channels_last = config.channels_last
        self.position = 0
        self.loader = _loader(dataset, batches, process, config) if config.workers else None
        if not config.workers:
            self.tensors = [tensor.to(process.device) for tensor in dataset.tensors]

    def __len__(self) -> int:
        """Return the batches of a whole epoch."""
        return len(self.batches)

    def __iter__(self) -> Iterator[Batch]:
        for batch, (images, labels) in enumerate(self._raw(), self.batches.start):
            self.position = batch + 1
            yield self._finished(images, batch), labels

    def state_dict(self) -> dict[str, int]:
        """Return where it stands."""
        return {"epoch": self.batches.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on from where another feed stood, be it one of another number of ranks."""
        self.batches.set_position(state["epoch"], state["position"])

    def _raw(self) -> Iterator[Batch]:
        if self.loader is None:
            for part in self.batches.parts(self.process.device):
                yield tuple(tensor[part] for tensor in self.tensors)
        else:
            for batch in self.loader:
                yield tuple(tensor.to(self.process.device, non_blocking=True) for tensor in batch)

    def _finished(self, images: Tensor, batch: int) -> Tensor:
        if self.augment:
            process = self.process
            images = self.augment(images, self.batches.epoch, batch, process.rank, process.world_size)
        return images.contiguous(memory_format=torch.channels_last) if self.channels_last else images


def _loader(data: TensorDataset, batches: RankBatches, process: Process, config: Config) -> DataLoader[Batch]:
    return DataLoader(
        data,
        sampler=batches,
        batch_size=None,  # the sampler gives whole batches, which a TensorDataset fetches in one go
        num_workers=min(config.workers, len(os.sched_getaffinity(0))),
        persistent_workers=True,
        pin_memory=process.device.type == "cuda",
        # Its own, so that fetching leaves every other generator alone.
        generator=torch.Generator().manual_seed(config.seed),
    )
