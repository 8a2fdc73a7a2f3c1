"""The batches of a rank, from any map-style dataset of (image, label), in an order that all ranks share."""

import atexit
import signal
from collections.abc import Callable, Iterator
from hashlib import blake2b

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler, TensorDataset

STOPPING = (signal.SIGTERM, signal.SIGUSR2)  # Slurm sends them to all processes of a step
Batch = tuple[Tensor, Tensor]  # images (N, C, H, W), labels int64 (N,)


def with_seed(*parts: object) -> torch.Generator:
    """Return a generator on the CPU for a use, such as ("order", seed, epoch). Sums of seeds would repeat."""
    digest = blake2b(repr(parts).encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest) >> 1)


class Order(Sampler[list[int]]):
    """One rank's part of each batch. An epoch is split into global batches, and each batch among the ranks.

    All ranks have equally many parts of equal size. In training, an incomplete last batch is dropped. In
    testing, it is filled up with sample 0, and `valid` returns how many samples of a part count.
    """

    def __init__(
        self, samples: int, batch_size: int, rank: int, world_size: int, seed: int | None = None,
        multiple: int = 1,
    ) -> None:  # fmt: skip
        """`seed`: shuffle, for training. `multiple`: round the number of batches down to a multiple."""
        self.samples, self.batch_size, self.multiple = samples, batch_size, multiple
        self.rank, self.world_size, self.seed = rank, world_size, seed
        self.epoch = self.start = 0

    def set_epoch(self, epoch: int, start: int = 0) -> None:
        """Select the epoch, which determines the order, and the batch to start with."""
        self.epoch, self.start = epoch, start

    def __len__(self) -> int:
        """Return the number of batches of a complete epoch."""
        if self.seed is None:
            return -(-self.samples // self.batch_size)
        return self.samples // self.batch_size // self.multiple * self.multiple

    def __iter__(self) -> Iterator[list[int]]:
        return (part.tolist() for part in self.parts())

    def parts(self, device: torch.device | None = None) -> Iterator[Tensor]:
        """Yield the indices of each part, from batch `start` on, as tensors on `device`."""
        order = torch.arange(self.samples)
        if self.seed is not None:
            order = torch.randperm(self.samples, generator=with_seed("order", self.seed, self.epoch))
        rest = order.new_zeros(max(len(self) * self.batch_size - self.samples, 0))
        order = torch.cat([order, rest]).to(device)
        for batch in range(self.start, len(self)):
            yield order[batch * self.batch_size :][: self.batch_size][self.rank :: self.world_size]

    def valid(self, batch: int) -> int:
        """Return how many samples of this rank's part of `batch` count; the others fill it up."""
        rest = min(self.samples - batch * self.batch_size, self.batch_size)
        return max(-(-(rest - self.rank) // self.world_size), 0)


class Feed:
    """This rank's batches of an epoch on its device. Without workers, a TensorDataset is kept there."""

    def __init__(
        self, dataset: Dataset[Batch], order: Order, device: torch.device, workers: int = 0,
        augment: Callable[..., Tensor] | None = None, channels_last: bool = False,
    ) -> None:  # fmt: skip
        self.order, self.device, self.augment, self.channels_last = order, device, augment, channels_last
        self.tensors = self.loader = None
        if isinstance(dataset, TensorDataset) and not workers:
            self.tensors = [tensor.to(device) for tensor in dataset.tensors]
        else:
            self.loader = DataLoader(
                dataset, batch_sampler=order, num_workers=workers, persistent_workers=workers > 0,
                pin_memory=device.type == "cuda", generator=torch.Generator(),
            )  # fmt: skip
            atexit.register(self.close)

    def __len__(self) -> int:
        """Return the number of batches of a complete epoch."""
        return len(self.order)

    def __iter__(self) -> Iterator[Batch]:
        for batch, (images, labels) in enumerate(self._raw(), self.order.start):
            if self.order.seed is None:
                labels[self.order.valid(batch) :] = -1  # samples that only fill the batch
            if self.augment:
                images = self.augment(images, self.order, batch)
            if self.channels_last and images.ndim == 4:
                images = images.contiguous(memory_format=torch.channels_last)
            yield images, labels

    def _raw(self) -> Iterator[list[Tensor]]:
        if self.loader is None:
            for part in self.order.parts(self.device):
                yield [tensor[part] for tensor in self.tensors]
        else:
            # Otherwise the workers of all ranks and epochs would draw the same random numbers.
            seed = with_seed("workers", self.order.seed, self.order.epoch, self.order.start, self.order.rank)
            self.loader.generator.manual_seed(seed.initial_seed())
            # The workers inherit it. A signal would end a worker, and with it the rank, before it could save.
            signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
            batches = iter(self.loader)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
            for images, labels in batches:
                yield [images.to(self.device, non_blocking=True), labels.to(self.device, non_blocking=True)]

    def close(self) -> None:
        """End the workers. Python would send them a signal, which they block, and wait."""
        if self.loader is not None and self.loader._iterator is not None:
            self.loader._iterator._shutdown_workers()
