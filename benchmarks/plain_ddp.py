"""Handwritten DDP loops for the models of training/, without metrics, checkpoints or a graceful stop.

`flat` indexes images that are on the device as floats. `loader` reads them through a DataLoader. `olivia`
trains as the Olivia guide does: PIL transforms in eight workers, and fp16 autocast.
"""

from argparse import Namespace
from collections.abc import Iterator

import torch
import torch.distributed as dist
from data import Batch
from device import cpus
from models import MODELS
from optimize import build_optimizer
from options import TASKS, global_batch_size
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset


class Flat:
    """This rank's batches of an epoch, without augmentation."""

    def __init__(self, images: Tensor, labels: Tensor, batch_size: int, device: torch.device) -> None:
        self.images, self.labels = (images / 255).to(device), labels.to(device)
        self.batch_size, self.epoch = batch_size, 0

    def set_epoch(self, epoch: int) -> None:
        """Select the order."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[Batch]:
        generator = torch.Generator().manual_seed(self.epoch)
        order = torch.randperm(len(self.labels), generator=generator)[
            dist.get_rank() :: dist.get_world_size()
        ]
        parts = order.to(self.labels.device).split(self.batch_size)
        return ((self.images[part], self.labels[part]) for part in parts if len(part) == self.batch_size)


class Loader:
    """The same with a DistributedSampler and a DataLoader."""

    def __init__(self, dataset: Dataset, batch_size: int, device: torch.device, workers: int = 0) -> None:
        self.sampler, self.device = DistributedSampler(dataset), device
        self.loader = DataLoader(
            dataset, batch_size, sampler=self.sampler, num_workers=workers, drop_last=True
        )

    def set_epoch(self, epoch: int) -> None:
        """Select the order."""
        self.sampler.set_epoch(epoch)

    def __iter__(self) -> Iterator[Batch]:
        return ((images.to(self.device), labels.to(self.device)) for images, labels in self.loader)


class Pictures(Dataset):
    """Images with the transforms of the guides, one by one."""

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        from torchvision import transforms

        self.images, self.labels = images, labels
        steps = [transforms.RandomCrop(images.shape[-1], padding=4), transforms.RandomHorizontalFlip()]
        self.transform = transforms.Compose([transforms.ToPILImage(), *steps, transforms.ToTensor()])

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.transform(self.images[index]), self.labels[index]


class Plain:
    """A loop in one of these styles."""

    def __init__(self, style: str, options: Namespace, data: TensorDataset, device: torch.device) -> None:
        self.device, self.fp16 = device, style == "olivia"
        size = global_batch_size(options, dist.get_world_size()) // dist.get_world_size()
        images, labels = data.tensors
        self.batches: Flat | Loader = {
            "flat": lambda: Flat(images, labels, size, device),
            "loader": lambda: Loader(TensorDataset(images / 255, labels), size, device),
            "olivia": lambda: Loader(Pictures(images, labels), size, device, min(8, len(cpus()))),
        }[style]()
        model = nn.Sequential(*MODELS[options.model](TASKS[options.task], options.width)).to(device)
        wrap = style == "olivia" or dist.get_world_size() > 1  # that script wraps, also on one GPU
        self.model = DistributedDataParallel(model) if wrap else model
        self.optimizer = build_optimizer(self.model, options)
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.fp16)

    def epoch(self, number: int) -> None:
        """Train on all images once."""
        self.batches.set_epoch(number)
        self.model.train()
        for images, labels in self.batches:
            self.optimizer.zero_grad()
            with torch.autocast(self.device.type, torch.float16, enabled=self.fp16):
                loss = cross_entropy(self.model(images), labels)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
