"""The tasks and their default options. Does not import torch."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Task:
    """A task. The first of `data` and `models` is the default; the other fields are defaults of flags.

    `lr` belongs to `batch_size`; `lr_scaling` says what becomes of it with another one.
    """

    name: str
    data: tuple[str, ...]
    models: tuple[str, ...]
    classes: int
    shape: tuple[int, int, int]  # channels, height, width
    mean: tuple[float, ...]  # for each channel, from 0 to 1
    std: tuple[float, ...]
    epochs: int
    batch_size: int
    lr: float
    lr_scaling: str
    optimizer: str
    weight_decay: float
    crop_padding: int
    flip: bool


CIFAR = Task(
    name="cifar",
    data=("cifar10", "synthetic"),
    models=("resnet18", "wideresnet"),
    classes=10,
    shape=(3, 32, 32),
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
    epochs=30,
    batch_size=128,
    lr=0.1,
    lr_scaling="linear",
    optimizer="sgd",
    weight_decay=5e-4,
    crop_padding=4,
    flip=True,
)
CIFAR100 = replace(
    CIFAR,
    name="cifar100",
    data=("cifar100", "synthetic"),
    models=("wideresnet", "resnet18"),
    classes=100,
    mean=(0.5071, 0.4866, 0.4409),
    std=(0.2673, 0.2564, 0.2762),
    epochs=60,
)
MNIST = Task(
    name="mnist",
    data=("mnist", "digits", "synthetic"),
    models=("mlp", "cnn"),
    classes=10,
    shape=(1, 28, 28),
    mean=(0.1307,),
    std=(0.3081,),
    epochs=10,
    batch_size=64,
    lr=2e-3,
    lr_scaling="sqrt",  # AdamW's steps do not grow with the gradient
    optimizer="adamw",
    weight_decay=1e-2,
    crop_padding=0,
    flip=False,  # mirrored digits are not digits
)
TASKS = {task.name: task for task in (CIFAR, CIFAR100, MNIST)}
