"""The batches of a rank, in an order that does not depend on the number of ranks, augmented on the device."""

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
    """One rank's part of every batch: an epoch is split into global batches, and each batch among the ranks.

    Every rank has the same number of parts, and no sample is padded or repeated. In training, an
    incomplete last batch is dropped; in testing it is kept, and a rank's part of it may be empty.
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
        """With `seed`, for training: shuffle in each epoch. Without it, for testing: every sample in order.

        `multiple`: the number of batches in an epoch is a multiple of this, the batches of one step.
        """
        self.samples, self.batch_size, self.multiple = samples, batch_size, multiple
        self.rank, self.world_size = rank, world_size
        self.seed, self.epoch, self.start = seed, 0, 0

    def set_epoch(self, epoch: int) -> None:
        """Select the epoch, which determines the order. Lightning calls this."""
        if epoch != self.epoch:
            self.epoch, self.start = epoch, 0

    def set_position(self, epoch: int, start: int) -> None:
        """Continue within an epoch, at batch `start`."""
        self.epoch, self.start = epoch, start

    def __len__(self) -> int:
        """Return the number of batches of a complete epoch."""
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

    Lightning saves and restores its `state_dict`, the position in the data.
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
        """Return the number of batches of a complete epoch."""
        return len(self.batches)

    def __iter__(self) -> Iterator[Batch]:
        for batch, (images, labels) in enumerate(self._raw(), self.batches.start):
            self.position = batch + 1
            yield self._finished(images, batch), labels

    def state_dict(self) -> dict[str, int]:
        """Return the position in the data."""
        return {"epoch": self.batches.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue from the position of another feed, which may have had another number of ranks."""
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
        batch_size=None,  # the sampler yields whole batches, which a TensorDataset loads in one operation
        num_workers=min(config.workers, len(os.sched_getaffinity(0))),
        persistent_workers=True,
        pin_memory=process.device.type == "cuda",
        # A separate generator, so that loading does not change the others.
        generator=torch.Generator().manual_seed(config.seed),
    )
