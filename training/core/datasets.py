"""Data sets that need no network, in the file formats of torchvision's classes."""

# torchvision has no type annotations.
# mypy: allow-subclassing-any

import os
import pickle
import struct
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import interpolate
from torchvision import datasets

Images = NDArray[np.uint8]
Labels = NDArray[np.uint8]

FILE_SAMPLES = 500  # in each of the six files of CIFAR-10, instead of 10,000


class SyntheticCIFAR10(datasets.CIFAR10):
    """Ten blurred colour patterns under noise, in CIFAR-10's own pickled batches."""

    base_folder = "SyntheticCIFAR10"
    # The names of the original files without checksums, so that torchvision does not check them.
    train_list = [[name, None] for name, _ in datasets.CIFAR10.train_list]
    test_list = [[name, None] for name, _ in datasets.CIFAR10.test_list]
    meta = {**datasets.CIFAR10.meta, "md5": None}

    def download(self) -> None:
        """Generate the files instead of downloading them."""
        if self._check_integrity():
            return
        folder = Path(self.root, self.base_folder)
        _write_pickle(folder / self.meta["filename"], {"label_names": [f"pattern {n}" for n in range(10)]})
        names = [name for name, _ in self.train_list + self.test_list]
        images, labels = make_patterns(len(names) * FILE_SAMPLES, channels=3, side=32)
        for name, start in zip(names, range(0, len(labels), FILE_SAMPLES), strict=True):
            part = slice(start, start + FILE_SAMPLES)
            rows = images[part].reshape(FILE_SAMPLES, 3 * 32 * 32)
            _write_pickle(folder / name, {"data": rows, "labels": labels[part].tolist()})


class SyntheticMNIST(datasets.MNIST):
    """Ten blurred grey patterns under noise, in MNIST's IDX files."""

    def download(self) -> None:
        """Generate the files instead of downloading them."""
        if not self._check_exists():
            images, labels = make_patterns(6 * FILE_SAMPLES, channels=1, side=28)
            _write_mnist(Path(self.raw_folder), images[:, 0], labels, train_samples=5 * FILE_SAMPLES)


class Digits(datasets.MNIST):
    """scikit-learn's 1,797 real handwritten digits, enlarged from 8x8 to 28x28, in MNIST's IDX files."""

    def download(self) -> None:
        """Generate the files: always the same 1,500 training and 297 test images."""
        if not self._check_exists():
            images, labels = _load_digits()
            order = np.random.default_rng(0).permutation(len(labels))
            _write_mnist(Path(self.raw_folder), images[order], labels[order], train_samples=1500)


def make_patterns(samples: int, channels: int, side: int) -> tuple[Images, Labels]:
    """Return images (N, channels, side, side) of ten classes and labels (N,); always the same."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.randn(10, channels, 4, 4, generator=generator)
    patterns = interpolate(coarse, size=(side, side), mode="bilinear")
    labels = torch.randint(10, (samples,), generator=generator)
    noise = torch.randn(samples, channels, side, side, generator=generator)
    images = (128 + 40 * patterns[labels] + 40 * noise).clamp(0, 255)
    return images.to(torch.uint8).numpy(), labels.to(torch.uint8).numpy()


def _load_digits() -> tuple[Images, Labels]:
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError("scikit-learn, which brings them, is not installed") from error
    digits = load_digits()
    small = torch.from_numpy(digits.images).unsqueeze(1) * (255 / 16)  # scikit-learn's grey goes from 0 to 16
    images = interpolate(small, size=(28, 28), mode="bilinear").squeeze(1)
    return images.to(torch.uint8).numpy(), digits.target.astype(np.uint8)


def _write_mnist(folder: Path, images: Images, labels: Labels, train_samples: int) -> None:
    for prefix, part in (("train", slice(train_samples)), ("t10k", slice(train_samples, None))):
        _write_idx(folder / f"{prefix}-images-idx3-ubyte", images[part])
        _write_idx(folder / f"{prefix}-labels-idx1-ubyte", labels[part])


def _write_idx(path: Path, array: NDArray[np.uint8]) -> None:
    # The IDX header: two zero bytes, 8 for unsigned bytes, the number of dimensions, then each dimension.
    header = struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    _write_whole(path, header + array.tobytes())


def _write_pickle(path: Path, value: object) -> None:
    _write_whole(path, pickle.dumps(value))


def _write_whole(path: Path, content: bytes) -> None:
    # Renamed when complete, so that no job reads an incomplete file.
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.uname().nodename}.{os.getpid()}")
    partial.write_bytes(content)
    partial.replace(path)
