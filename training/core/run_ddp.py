"""Training with DistributedDataParallel: as torchrun starts it, or in one process without a launcher."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from .config import Config
from .data import make_loaders
from .loop import fit
from .measure import report_end
from .models import build_model, build_optimizer
from .process import Process, begin, leave


def run(config: Config) -> None:
    """Train as `config` says, as one of the ranks that torchrun started."""
    process = join()
    begin(process, config)
    loaders = make_loaders(process, config)
    model = DistributedDataParallel(build_model(config).to(process.device))
    result = fit(model, build_optimizer(model, config), loaders, process, config)
    report_end(process, config, result, model)
    leave()


def join() -> Process:
    """Join the process group that the environment describes; without a launcher, be a group of one."""
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if torch.cuda.is_available():
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
        _init("nccl", device)
    else:
        device = torch.device("cpu")
        _init("gloo", None)
    return Process(dist.get_rank(), dist.get_world_size(), local_rank, device)


def _init(backend: str, device: torch.device | None) -> None:
    if "RANK" in os.environ:
        dist.init_process_group(backend, device_id=device)
    else:
        alone = dist.HashStore()  # type: ignore[attr-defined]
        dist.init_process_group(backend, store=alone, rank=0, world_size=1, device_id=device)
