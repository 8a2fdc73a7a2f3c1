"""The models: raw images, uint8 (N, C, H, W), to logits (N, classes)."""

from collections import OrderedDict
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torchvision.models import resnet18

from .config import Config
from .wideresnet import WideBlock, wide_resnet


class Normalize(nn.Module):
    """Convert uint8 images to floats, normalized by the `mean` and `std` of each channel of the data set."""

    scale: Tensor
    shift: Tensor

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        middle, width = torch.tensor(mean).view(-1, 1, 1), torch.tensor(std).view(-1, 1, 1)
        self.register_buffer("scale", 1 / (255 * width), persistent=False)
        self.register_buffer("shift", middle / width, persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Map uint8 (N, C, H, W) to float (N, C, H, W)."""
        return images * self.scale - self.shift


def build_model(config: Config, device: torch.device | None = None) -> nn.Module:
    """Return the model on `device`, with the same weights on every rank."""
    torch.manual_seed(config.seed)
    task = config.task
    parts = {"normalize": Normalize(task.mean, task.std), config.model: MODELS[config.model](config)}
    model = nn.Sequential(OrderedDict(parts)).to(device)
    if config.channels_last:
        model = model.to(memory_format=torch.channels_last)
    if config.compile:
        model.compile()  # in place, which keeps the names of the weights
    return model


def shards(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the modules that FSDP gathers as units, inner ones first; the last is `model` itself."""
    for module in model.modules():
        if isinstance(module, WideBlock) or type(module).__name__ == "BasicBlock":
            yield module
    yield model


def _resnet18(config: Config) -> nn.Module:
    # ImageNet's stem would shrink 32x32 images to 8x8 before the first block.
    resnet = resnet18(num_classes=config.task.classes)
    resnet.conv1 = nn.Conv2d(3, 64, kernel_size=3, padding=1, bias=False)
    resnet.maxpool = nn.Identity()
    return resnet


def _mlp(config: Config) -> nn.Module:
    pixels = torch.Size(config.task.shape).numel()
    return nn.Sequential(nn.Flatten(), nn.Linear(pixels, 256), nn.ReLU(), nn.Linear(256, config.task.classes))


def _cnn(config: Config) -> nn.Module:
    channels, height, width = config.task.shape
    return nn.Sequential(
        *(nn.Conv2d(channels, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Flatten(),
        nn.Linear(64 * (height // 4) * (width // 4), config.task.classes),
    )


MODELS: dict[str, Callable[[Config], nn.Module]] = {
    "resnet18": _resnet18,
    "wideresnet": lambda config: wide_resnet(config.task.classes, config.width),
    "mlp": _mlp,
    "cnn": _cnn,
}
