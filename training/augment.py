"""Augmentation of a batch on its device. Its random numbers depend only on seed, epoch and sample."""

from argparse import Namespace

import torch
from data import Order, with_seed
from options import TASKS
from torch import Tensor


class Augment:
    """Shift by up to `padding` pixels with reflected edges, mirror half of them, and cut out squares."""

    def __init__(self, padding: int, flip: bool, cutout: int, fill: tuple[float, ...], seed: int) -> None:
        """`fill`: the colour of the squares, for each channel from 0 to 1."""
        self.padding, self.flip, self.cutout, self.seed = padding, flip, cutout, seed
        self.fill = (torch.tensor(fill) * 255).to(torch.uint8).view(1, -1, 1, 1)
        self.epoch, self.draws = -1, torch.empty(0)

    def __call__(self, images: Tensor, order: Order, batch: int) -> Tensor:
        """Map uint8 (N, C, H, W) to the same, for this rank's part of `batch`. Other images stay as is."""
        if images.dtype != torch.uint8 or not (self.padding or self.flip or self.cutout):
            return images
        if (
            self.epoch != order.epoch
        ):  # one copy to the device per epoch: a copy in each step would wait for it
            self.epoch = order.epoch
            draws = torch.rand(5, order.samples, generator=with_seed("augment", self.seed, self.epoch))
            self.draws, self.fill = draws.to(images.device), self.fill.to(images.device)
        here = self.draws[:, batch * order.batch_size :][:, : order.batch_size]
        down, right, mirror, *square = here[:, order.rank :: order.world_size]
        moved = self._moved(images, down, right, mirror)
        return self._cut(moved, *square) if self.cutout else moved

    def _moved(self, images: Tensor, down: Tensor, right: Tensor, mirror: Tensor) -> Tensor:
        """One gather, with the index of the original pixel for each pixel."""
        samples, channels, height, width = images.shape
        rows = self._shifted(down, height)
        columns = self._shifted(right, width)
        if self.flip:
            columns = torch.where(mirror[:, None] < 0.5, columns.flip(1), columns)
        index = (rows[:, :, None] * width + columns[:, None, :]).view(samples, 1, -1)
        flat = images.reshape(samples, channels, -1)
        return flat.gather(2, index.expand(-1, channels, -1)).view_as(images)

    def _shifted(self, draw: Tensor, size: int) -> Tensor:
        """Return the original row or column of each, (N, size), reflected at the edges."""
        shift = (draw[:, None] * (2 * self.padding + 1)).long() - self.padding
        place = (shift + torch.arange(size, device=draw.device)).abs()
        return (size - 1) - ((size - 1) - place).abs()

    def _cut(self, images: Tensor, down: Tensor, right: Tensor) -> Tensor:
        """The centre of the square is inside the image; part of the square may be outside."""
        rows = self._within(down, images.shape[2])[:, None, :, None]
        columns = self._within(right, images.shape[3])[:, None, None, :]
        return torch.where(rows & columns, self.fill, images)

    def _within(self, draw: Tensor, size: int) -> Tensor:
        first = (draw[:, None] * size).long() - self.cutout // 2
        place = torch.arange(size, device=draw.device)
        return (place >= first) & (place < first + self.cutout)


def augment_for(options: Namespace) -> Augment:
    """Return the augmentation that `options` ask for."""
    return Augment(options.crop_padding, options.flip, options.cutout, TASKS[options.task].mean, options.seed)
