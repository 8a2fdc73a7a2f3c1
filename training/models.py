"""The models: raw images, uint8 (N, C, H, W), to logits (N, classes). Each is a sequence of blocks."""

from argparse import Namespace
from functools import partial
from itertools import pairwise

import torch
from options import TASKS, Task
from torch import Tensor, nn
from torch.nn.functional import relu
from torch.utils.checkpoint import checkpoint


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


class ResidualBlock(nn.Module):
    """ResNet's basic block: (N, inputs, H, W) to (N, outputs, H/stride, W/stride)."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if inputs != outputs or stride > 1:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, images: Tensor) -> Tensor:
        """Add the convolutions to the shortcut."""
        return relu(self.norm2(self.conv2(relu(self.norm1(self.conv1(images))))) + self.shortcut(images))


class WideBlock(nn.Module):
    """WideResNet's block, with the norms before the convolutions."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(inputs), nn.BatchNorm2d(outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        """Add the convolutions and the shortcut."""
        ready = relu(self.norm1(images))
        past = images if isinstance(self.shortcut, nn.Identity) else self.shortcut(ready)
        return past + self.conv2(relu(self.norm2(self.conv1(ready))))


BLOCKS = (ResidualBlock, WideBlock)


def build_model(options: Namespace, device: torch.device) -> nn.Module:
    """Return the model on `device`, with the same weights on every rank."""
    torch.manual_seed(options.seed)
    task = TASKS[options.task]
    model = nn.Sequential(Normalize(task.mean, task.std), *MODELS[options.model](task, options.width)).to(
        device
    )
    if options.sync_batchnorm:
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    if options.channels_last:
        model = model.to(memory_format=torch.channels_last)
    if options.checkpoint_activations:
        checkpoint_activations(model, twice=not options.compile)
    return model


def blocks(model: nn.Module) -> list[nn.Module]:
    """Return the residual blocks: FSDP gathers, and --checkpoint-activations recomputes, one at a time."""
    return [module for module in model.modules() if isinstance(module, BLOCKS)]


def checkpoint_activations(model: nn.Module, twice: bool) -> None:
    """Recompute the activations of each block in the backward pass instead of keeping them, in place.

    `twice`: the recomputation updates the running statistics of BatchNorm again. A compiled one does not.
    """
    for block in blocks(model):
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
        for norm in block.modules():
            if twice and isinstance(norm, nn.modules.batchnorm._BatchNorm):
                # Two updates of the running statistics with the same batch must have the effect of one.
                norm.momentum = 1 - (1 - norm.momentum) ** 0.5


def resnet18(task: Task, _: int) -> list[nn.Module]:
    """ResNet-18 (He et al. 2016), with a stem that does not shrink images of 32x32."""
    channels = [64, 64, 128, 256, 512]
    stages = [
        block
        for stage, (inputs, outputs) in enumerate(pairwise(channels))
        for block in (ResidualBlock(inputs, outputs, 2 if stage else 1), ResidualBlock(outputs, outputs))
    ]
    stem = [nn.Conv2d(task.channels, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    return initialized([*stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, task.classes)])


def wideresnet(task: Task, width: int) -> list[nn.Module]:
    """WRN-28-`width` (Zagoruyko and Komodakis 2016): few layers, many channels."""
    channels = [16, 16 * width, 32 * width, 64 * width]
    stages = [
        WideBlock(inputs if first else outputs, outputs, 2 if first and stage else 1)
        for stage, (inputs, outputs) in enumerate(pairwise(channels))
        for first in (True, False, False, False)
    ]
    head = [nn.BatchNorm2d(channels[-1]), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    stem = nn.Conv2d(task.channels, 16, 3, padding=1, bias=False)
    return initialized([stem, *stages, *head, nn.Linear(channels[-1], task.classes)])


def initialized(layers: list[nn.Module]) -> list[nn.Module]:
    """Initialize convolutions for ReLU (He et al. 2015), in place."""
    for module in nn.Sequential(*layers).modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return layers


def mlp(task: Task, _: int) -> list[nn.Module]:
    """One hidden layer."""
    pixels = task.channels * task.side**2
    return [nn.Flatten(), nn.Linear(pixels, 256), nn.ReLU(), nn.Linear(256, task.classes)]


def cnn(task: Task, _: int) -> list[nn.Module]:
    """Two convolutions."""
    return [
        *(
            nn.Conv2d(task.channels, 32, 3, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ),
        *(nn.Conv2d(32, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Flatten(),
        nn.Linear(64 * (task.side // 4) ** 2, task.classes),
    ]


MODELS = {"resnet18": resnet18, "wideresnet": wideresnet, "mlp": mlp, "cnn": cnn}
