"""The models: raw images, uint8 (N, C, H, W), to logits (N, 10). They augment while they are in training."""

from collections import OrderedDict

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torchvision.models import resnet18

from .config import Config


class Normalize(nn.Module):
    """Turn uint8 images into floats around 0, by the data set's own `mean` and `std` of each channel."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: list[float], std: list[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Map uint8 (N, C, H, W) to float (N, C, H, W)."""
        return (images / 255 - self.mean) / self.std


class RandomCropFlip(nn.Module):
    """In training, shift each image by up to `padding` pixels and mirror about half of them."""

    def __init__(self, padding: int = 4) -> None:
        super().__init__()
        self.padding = padding

    def forward(self, images: Tensor) -> Tensor:
        """Map (N, C, H, W) to (N, C, H, W), each image by its own draw, the whole batch at once."""
        if not self.training:
            return images
        samples, _, height, width = images.shape
        padded = pad(images, (self.padding,) * 4)
        windows = padded.unfold(2, height, 1).unfold(3, width, 1)
        top, left = torch.randint(2 * self.padding + 1, (2, samples), device=images.device)
        cropped = windows[torch.arange(samples, device=images.device), :, top, left]
        mirrored = torch.rand(samples, 1, 1, 1, device=images.device) < 0.5
        return torch.where(mirrored, cropped.flip(3), cropped)


def build_model(config: Config) -> nn.Module:
    """Return the task's model, with the same weights on every rank."""
    torch.manual_seed(config.seed)
    return _cifar_resnet() if config.task == "cifar" else _mnist_mlp()


def build_optimizer(model: nn.Module, config: Config) -> torch.optim.Optimizer:
    """Return the optimizer of `model`, which must be on its device by now."""
    return torch.optim.AdamW(model.parameters(), lr=config.lr)


def _cifar_resnet() -> nn.Module:
    # ImageNet's stem would shrink 32x32 images to 8x8 before the first block.
    resnet = resnet18(num_classes=10)
    resnet.conv1 = nn.Conv2d(3, 64, kernel_size=3, padding=1, bias=False)
    resnet.maxpool = nn.Identity()
    normalize = Normalize(mean=[0.4914, 0.4822, 0.4465], std=[0.2470, 0.2435, 0.2616])
    return nn.Sequential(OrderedDict(normalize=normalize, augment=RandomCropFlip(), resnet=resnet))


def _mnist_mlp() -> nn.Module:
    mlp = nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 256), nn.ReLU(), nn.Linear(256, 10))
    return nn.Sequential(OrderedDict(normalize=Normalize(mean=[0.1307], std=[0.3081]), mlp=mlp))
