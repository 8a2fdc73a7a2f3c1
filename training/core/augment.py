"""Augmentation of a whole batch at once, on the device that holds it.

The random numbers depend only on the seed, the epoch and the index of the batch. They are the same for
any number of ranks, and in a continued run.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from .config import Config

_BATCHES = 1 << 20  # more than an epoch has, so that the seeds of epochs do not overlap


@dataclass(frozen=True)
class Augment:
    """Shift by up to `padding` pixels with reflected edges, mirror half of them, and cut out squares."""

    padding: int
    flip: bool
    cutout: int
    fill: tuple[float, ...]  # colour of the square, for each channel from 0 to 1
    seed: int

    def __call__(self, images: Tensor, epoch: int, batch: int, rank: int = 0, world_size: int = 1) -> Tensor:
        """Map uint8 (N, C, H, W) to the same, for this rank's part of the global batch `batch`."""
        if not (self.padding or self.flip or self.cutout):
            return images
        draws = self._draw(len(images) * world_size, epoch, batch, images.device)[:, rank::world_size]
        moved = self._moved(images, *draws[:3])
        return self._cut(moved, *draws[3:]) if self.cutout else moved

    def _draw(self, samples: int, epoch: int, batch: int, device: torch.device) -> Tensor:
        generator = torch.Generator(device)
        generator.manual_seed((self.seed << 40) + epoch * _BATCHES + batch)
        return torch.rand(5, samples, device=device, generator=generator)

    def _moved(self, images: Tensor, down: Tensor, right: Tensor, mirror: Tensor) -> Tensor:
        """One gather with the index of the original pixel for each pixel."""
        samples, channels, height, width = images.shape
        rows = _reflected(self._shift(down) + torch.arange(height, device=images.device), height)
        columns = _reflected(self._shift(right) + torch.arange(width, device=images.device), width)
        if self.flip:
            columns = torch.where(mirror[:, None] < 0.5, columns.flip(1), columns)
        index = (rows[:, :, None] * width + columns[:, None, :]).view(samples, 1, -1)
        flat = images.reshape(samples, channels, -1)
        return flat.gather(2, index.expand(-1, channels, -1)).view_as(images)

    def _shift(self, draw: Tensor) -> Tensor:
        return (draw[:, None] * (2 * self.padding + 1)).long() - self.padding

    def _cut(self, images: Tensor, down: Tensor, right: Tensor) -> Tensor:
        """The centre of the square is inside the image; part of the square may be outside."""
        rows = self._within(down, images.shape[2])[:, None, :, None]
        columns = self._within(right, images.shape[3])[:, None, None, :]
        fill = (images.new_tensor(self.fill, dtype=torch.float) * 255).to(torch.uint8).view(1, -1, 1, 1)
        return torch.where(rows & columns, fill, images)

    def _within(self, draw: Tensor, size: int) -> Tensor:
        start = (draw[:, None] * size).long() - self.cutout // 2
        place = torch.arange(size, device=draw.device)
        return (place >= start) & (place < start + self.cutout)


def augment_of(config: Config) -> Augment:
    """Return the augmentation that `config` asks for."""
    return Augment(config.crop_padding, config.flip, config.cutout, config.task.mean, config.seed)


def _reflected(place: Tensor, size: int) -> Tensor:
    return (size - 1) - ((size - 1) - place.abs()).abs()
