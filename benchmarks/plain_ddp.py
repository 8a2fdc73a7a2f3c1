"""A minimal handwritten DDP loop: DataLoader, DistributedSampler, DistributedDataParallel.

On CPUs it gets its images as floats, ready and without augmentation. On a GPU it trains as the Olivia guide
does: PIL transforms in eight workers, and fp16 autocast.
"""

import torch
import torch.distributed as dist
from core.wideresnet import wide_resnet
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset
from torchvision import transforms
from torchvision.models import resnet18


class Pictures(Dataset):
    """Images with the transforms of the guides, one by one."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        self.images, self.labels = images, labels
        steps = [
            transforms.RandomCrop(32, padding=4),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
        ]
        self.transform = transforms.Compose([transforms.ToPILImage(), *steps])

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.transform(self.images[index]), self.labels[index]


class Plain:
    """The loop, for uint8 `images` of one of the models, on all ranks."""

    def __init__(
        self, model: str, images: torch.Tensor, labels: torch.Tensor, batch_size: int, device: torch.device
    ) -> None:
        self.device, self.gpu = device, device.type == "cuda"
        data: Dataset = Pictures(images, labels) if self.gpu else TensorDataset(images / 255, labels)
        self.sampler = DistributedSampler(data)
        self.loader = DataLoader(
            data,
            batch_size // dist.get_world_size(),
            sampler=self.sampler,
            num_workers=8 if self.gpu else 0,
            drop_last=True,
        )
        classes = int(labels.max()) + 1
        self.model = DistributedDataParallel(build(model, classes).to(device))
        adam = torch.optim.AdamW(self.model.parameters(), lr=2e-3)
        sgd = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
        self.optimizer = adam if model == "mlp" else sgd
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.gpu)

    def epoch(self, number: int) -> float:
        """Train on all images once; return the mean loss."""
        self.sampler.set_epoch(number)
        self.model.train()
        running_loss = 0.0
        for images, labels in self.loader:
            images, labels = images.to(self.device), labels.to(self.device)
            self.optimizer.zero_grad()
            with torch.autocast(self.device.type, torch.float16, enabled=self.gpu):
                loss = nn.functional.cross_entropy(self.model(images), labels)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            running_loss += loss.item()
        return running_loss / len(self.loader)


def build(model: str, classes: int) -> nn.Module:
    """The same layers as in training/core, so that only the loops differ."""
    if model == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, classes))
    if model == "wideresnet":
        return wide_resnet(classes)
    resnet = resnet18(num_classes=classes)
    resnet.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    resnet.maxpool = nn.Identity()
    return resnet
