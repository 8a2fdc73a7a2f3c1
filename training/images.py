"""The bundled image data sets.

A downloaded one becomes one file, NAME.pt, renamed when complete: two jobs can fetch it at once, and none
reads a part of it.
"""

import os
import shutil
import socket
import sys
import tempfile
import zipfile
from argparse import Namespace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from data import with_seed
from options import TASKS
from ranks import Ranks
from torch import Tensor
from torch.nn.functional import interpolate
from torch.utils.data import TensorDataset

Images = tuple[Tensor, Tensor]  # images uint8 (N, C, H, W), labels int64 (N,)
DOWNLOADED = {"cifar10": "CIFAR10", "cifar100": "CIFAR100", "mnist": "MNIST"}  # torchvision's classes
FETCH = Path(__file__).with_name("fetch_data.py").absolute()
NETWORK_TIMEOUT = 20.0  # seconds without a reply; compute nodes often drop packets instead of rejecting them


def load(options: Namespace, ranks: Ranks) -> tuple[TensorDataset, TensorDataset | None, TensorDataset]:
    """Return the training, validation (None without --val-samples) and test set. All ranks must call this.

    The storage may be shared or local to a node: rank 0 downloads, then the first rank of each other node
    does if it does not find the file. The others wait, as long as it takes.
    """
    for turn in (ranks.rank == 0, ranks.local_rank == 0 and ranks.rank > 0):
        ranks.agree(fetch(options.data, options.data_dir) if turn else None)
    task = TASKS[options.task]
    train, test = read(options.data, options.data_dir, task.channels, task.side)
    if options.limit:
        train, test = first(train, options.limit), first(test, max(options.limit // 5, 1))
    if not options.val_samples:
        return train, None, test
    if options.val_samples >= len(train):
        ranks.agree(
            f"--val-samples {options.val_samples} leaves nothing of {len(train)} training samples. Use less."
        )
    order = torch.randperm(len(train), generator=with_seed("validation", options.seed))
    held, rest = order[: options.val_samples], order[options.val_samples :]
    return TensorDataset(*train[rest]), TensorDataset(*train[held]), test


def first(dataset: TensorDataset, samples: int) -> TensorDataset:
    """Return the first samples."""
    return TensorDataset(*dataset[:samples])


def fetch(name: str, folder: Path) -> str | None:
    """Download the data set `name` into `folder` unless it is there. Returns an error, or None."""
    if name == "digits" and not find_spec("sklearn"):
        return "scikit-learn, which brings the digits, is not installed. Install it, or use --data synthetic."
    if name not in DOWNLOADED:
        return None
    path = folder / f"{name}.pt"
    if path.exists():
        return _damage(path)
    try:
        _keep(path, _installed(name, folder)) or _write(path, _downloaded(name, folder))
    except Exception as error:  # every error must reach the waiting ranks
        reason = " ".join(str(error).split()).rstrip(".")
        command = f"{Path(sys.executable).name} {FETCH} {name} --data-dir {folder}"
        return (
            f"{name} is not in {folder.absolute()} and could not be downloaded: {reason}. Run `{command}` on "
            "a host with a network, such as a login node, or use --data synthetic."
        )
    return None


def read(
    name: str, folder: Path, channels: int, side: int, samples: int = 3000
) -> tuple[TensorDataset, TensorDataset]:
    """Return the training and the test set. Five sixths of the `samples` of `synthetic` are for training."""
    if name in DOWNLOADED:
        path = folder / f"{name}.pt"
        if path.exists():
            train, test = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        else:
            train, test = _with_torchvision(name, folder, download=False)
    elif name == "digits":
        train, test = split(_digits(), 1500)
    else:
        train, test = split(patterns(samples, channels, side), samples * 5 // 6)
    return TensorDataset(*train), TensorDataset(*test)


def patterns(samples: int, channels: int, side: int) -> Images:
    """Return blurred patterns of ten classes under noise; always the same."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.randn(10, channels, 4, 4, generator=generator)
    pattern = interpolate(coarse, size=(side, side), mode="bilinear")
    labels = torch.randint(10, (samples,), generator=generator)
    noise = torch.randn(samples, channels, side, side, generator=generator)
    return noise.mul_(40).add_(40 * pattern[labels]).add_(128).clamp_(0, 255).to(torch.uint8), labels


def split(images: Images, samples: int) -> tuple[Images, Images]:
    """Return the first `samples` and the rest."""
    return (images[0][:samples], images[1][:samples]), (images[0][samples:], images[1][samples:])


def _digits() -> Images:
    """scikit-learn's 1,797 handwritten digits, enlarged from 8x8 to 28x28, always in the same order."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(digits.target)))
    small = torch.from_numpy(digits.images).unsqueeze(1) * (255 / 16)  # its grey goes from 0 to 16
    images = interpolate(small, size=(28, 28), mode="bilinear").to(torch.uint8)
    return images[order], torch.from_numpy(digits.target)[order]


def _installed(name: str, folder: Path) -> tuple[Images, Images] | None:
    """Return a data set that torchvision has downloaded into `folder`, if it is complete."""
    try:
        return _with_torchvision(name, folder, download=False)
    except Exception:  # torchvision raises many kinds for damaged files, AssertionError too
        return None


def _keep(path: Path, sets: tuple[Images, Images] | None) -> bool:
    """Write `sets` as a file, which loads faster, if the folder allows. Return whether there were any."""
    if sets and os.access(path.parent, os.W_OK):
        _write(path, sets)
    return sets is not None


def _downloaded(name: str, folder: Path) -> tuple[Images, Images]:
    folder.mkdir(parents=True, exist_ok=True)
    socket.setdefaulttimeout(NETWORK_TIMEOUT)
    partial = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder))
    try:
        return _with_torchvision(name, partial, download=True)
    finally:
        socket.setdefaulttimeout(None)
        shutil.rmtree(partial, ignore_errors=True)


def _with_torchvision(name: str, folder: Path, download: bool) -> tuple[Images, Images]:
    from torchvision import datasets  # imported only here: it takes longer than torch itself

    train, test = (
        getattr(datasets, DOWNLOADED[name])(folder, train=part, download=download) for part in (True, False)
    )
    return _tensors(train), _tensors(test)


def _tensors(dataset: Any) -> Images:
    images, labels = torch.as_tensor(dataset.data), torch.as_tensor(dataset.targets)
    # MNIST's class holds (N, H, W), CIFAR's (N, H, W, C).
    images = images.unsqueeze(1) if images.ndim == 3 else images.permute(0, 3, 1, 2)
    return images.contiguous(), labels.long()


def _write(path: Path, sets: tuple[Images, Images]) -> None:
    partial = path.with_name(f".{path.name}-{socket.gethostname()}-{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with partial.open("wb") as file:
            torch.save(sets, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _damage(path: Path) -> str | None:
    # The file is a zip archive, which has a checksum for each of its parts.
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
    except (zipfile.BadZipFile, OSError) as error:
        broken = str(error)
    return f"{path} is damaged ({broken}). Remove it, and fetch it again." if broken else None
