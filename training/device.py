"""The device of a rank: which one, how it computes, its peak, and how the devices are connected."""

import os
import re
import resource
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from shutil import which
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from ranks import Ranks

# Dense TFLOP/s of bf16 or fp16 matrix products, from NVIDIA's and AMD's data sheets; without sparsity.
PEAK_TFLOPS = {
    "B200": 2250, "GH200": 990, "H200": 989, "H100 PCIe": 756, "H100 NVL": 835, "H100": 989, "A100": 312,
    "L40S": 362, "L40": 181, "A40": 150, "A30": 165, "A10": 125, "RTX 6000 Ada": 364, "V100": 125, "T4": 65,
    "MI250X": 192, "MI300X": 1307,
}  # fmt: skip


DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def choose_device(kind: str, local_rank: int) -> torch.device:
    """Return the device of a rank. Exits with status 2 if there is no GPU for it."""
    if kind == "cpu" or (kind == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    visible = torch.cuda.device_count()
    index = 0 if visible == 1 else local_rank  # with --gpus-per-task, each task sees only its own
    if index >= visible:
        sys.stderr.write(
            f"error: local rank {local_rank} has no GPU: {visible} visible. Request one GPU per rank on each "
            "node, start fewer ranks, or use --device cpu.\n"
        )
        raise SystemExit(2)
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def cpus() -> list[int]:
    """Return the CPUs that this process may use; on macOS, which has no affinity, all of them."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def settle(options: Namespace, device: torch.device) -> str | None:
    """Replace what `options` leave to the device by values. Returns an error, or None."""
    gpu = device.type == "cuda"
    bf16 = not gpu or torch.cuda.is_bf16_supported(including_emulation=False)
    launched = os.environ.get("ACCELERATE_MIXED_PRECISION")
    if launched == "fp16" and not gpu:
        launched = None  # accelerate ignores it on CPUs
    if options.precision == "auto" and options.framework == "accelerate" and launched in DTYPES:
        options.precision = launched  # of `accelerate launch --mixed_precision`
    if options.precision == "auto":
        options.precision = ("bf16" if bf16 else "fp16") if gpu else "fp32"
    if options.channels_last is None:
        options.channels_last = gpu and getattr(options, "strategy", "ddp") == "ddp"
    if options.compile is None:
        options.compile = gpu
    if options.precision == "bf16" and not bf16:
        return f"{torch.cuda.get_device_name(device)} has no bf16. Use --precision fp16."
    return None


def prepare(options: Namespace, ranks: "Ranks") -> None:
    """Share the CPUs among the ranks of this host, and set the precision of fp32 products."""
    here = [ranks.host, cpus()]
    share = max(1, len(here[1]) // ranks.gather(here).count(here))
    # Slurm and OMP_NUM_THREADS may name more CPUs than exist.
    torch.set_num_threads(min(torch.get_num_threads(), share))
    if options.workers == "auto":
        options.workers = share - 1
    options.workers = min(options.workers, share)
    torch.set_float32_matmul_precision("high" if options.tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = options.tf32  # convolutions
    torch.backends.cudnn.benchmark = True  # all batches have the same size


def shared_gpu(ranks: "Ranks") -> str | None:
    """Return an error if two ranks have the same GPU, which NCCL refuses."""
    if ranks.device.type != "cuda":
        return None
    gpus = ranks.gather(f"{ranks.host} {torch.cuda.get_device_properties(ranks.device).uuid}")
    twice = [rank for rank, gpu in enumerate(gpus) if gpus.count(gpu) > 1]
    return (
        f"ranks {', '.join(map(str, twice))} have the same GPU. Request one GPU per rank." if twice else None
    )


def peak_memory(device: torch.device) -> int:
    """Return the most memory used so far, in bytes: of the GPU, or of the process on CPUs."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def peak_flops(device: torch.device) -> float | None:
    """Return the FLOP/s that the GPU reaches at most in bf16 or fp16, or None if not known."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    return next((1e12 * peak for gpu, peak in PEAK_TFLOPS.items() if re.search(rf"\b{gpu}\b", name)), None)


def count_flops(model: nn.Module, image: Tensor) -> float:
    """Return the floating-point operations of the forward and backward pass of one image, (C, H, W)."""
    from torch.utils.flop_counter import FlopCounterMode

    training = model.training
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.eval().forward(image[None].to(next(model.parameters()).device))  # not compiled
    model.train(training)
    return 3.0 * counter.get_total_flops()  # the gradients of inputs and of weights cost as much each


@contextmanager
def out_of_memory_explained(ranks: "Ranks") -> Iterator[None]:
    """Explain which options save memory if the GPU runs out of it."""
    try:
        yield
    except torch.OutOfMemoryError:
        sys.stderr.write(
            f"error: rank {ranks.rank} ran out of memory on {ranks.device}. Split each step "
            "(--accumulate 2 or more), lower --batch-size, or use --checkpoint-activations, --precision bf16 "
            "or train_fsdp.py.\n"
        )
        raise SystemExit(1) from None


def topology(ranks: "Ranks") -> list[str]:
    """Return the CPUs and GPU of each rank, the links between the GPUs here, and NCCL's settings."""
    gpu = torch.cuda.get_device_name(ranks.device) if ranks.device.type == "cuda" else "no GPU"
    lines = ranks.gather(f"rank {ranks.rank} host {ranks.host} CPUs {_spans(cpus())} {ranks.device} {gpu}")
    if ranks.device.type == "cuda":
        lines.append(f"NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}")
        if which("nvidia-smi"):
            shown = subprocess.run(["nvidia-smi", "topo", "-m"], capture_output=True, text=True, check=False)
            lines += shown.stdout.splitlines()
    return lines + [f"{name}={value}" for name, value in sorted(os.environ.items()) if "NCCL_" in name]


def _spans(numbers: list[int]) -> str:
    starts = [each for each in numbers if each - 1 not in numbers]
    ends = [each for each in numbers if each + 1 not in numbers]
    return ",".join(f"{a}-{b}" if a < b else str(a) for a, b in zip(starts, ends, strict=True))
