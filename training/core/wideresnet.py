"""WideResNet (Zagoruyko and Komodakis 2016): few layers, many channels, norms before convolutions."""

from collections import OrderedDict

from torch import Tensor, nn
from torch.nn.functional import relu


class WideBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut: (N, inputs, H, W) to (N, outputs, H/stride, W/stride)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
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


def wide_resnet(classes: int, width: int = 10, depth: int = 28) -> nn.Module:
    """Return WRN-`depth`-`width` for 32x32 images: (N, 3, 32, 32) to (N, classes)."""
    blocks = (depth - 4) // 6
    channels = [16, 16 * width, 32 * width, 64 * width]
    stages = [
        nn.Sequential(*(WideBlock(out if n else into, out, 1 if n else stride) for n in range(blocks)))
        for into, out, stride in zip(channels, channels[1:], (1, 2, 2), strict=False)
    ]
    model = nn.Sequential(
        OrderedDict(
            conv=nn.Conv2d(3, 16, 3, padding=1, bias=False),
            stages=nn.Sequential(*stages),
            norm=nn.BatchNorm2d(channels[-1]),
            relu=nn.ReLU(),
            pool=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            head=nn.Linear(channels[-1], classes),
        )
    )
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out")
    return model
