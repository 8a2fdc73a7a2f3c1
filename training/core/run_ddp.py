"""Training with DistributedDataParallel or FSDP, started by torchrun, or in one process."""

from functools import partial

import torch

from .config import Config
from .data import make_loaders
from .loop import Fit, Learner
from .models import build_model
from .optimize import build_optimizer, build_scheduler
from .process import Process, begin, join, leave, out_of_memory_explained
from .report import Reporter
from .wrap import DTYPES, no_sync, replicated, sharded


def run(config: Config) -> None:
    """Train with `config`, as one of the ranks of torchrun."""
    process = join(config)
    begin(process, config)
    loaders = make_loaders(process, config)
    reporter = Reporter(process, config)
    learner = make_learner(process, config, len(loaders.train))
    with out_of_memory_explained(process):
        Fit(learner, loaders, reporter, process, config).run()
    reporter.end(learner.plain)
    leave(config)


def make_learner(process: Process, config: Config, batches: int) -> Learner:
    """Return the learner, for epochs of `batches` batches."""
    plain = build_model(config, process.device)
    model = sharded(plain) if config.strategy == "fsdp" else replicated(plain, config)
    optimizer = build_optimizer(plain, config, process.world_size)
    scaler = torch.amp.GradScaler(process.device.type, enabled=config.precision == "fp16")
    mixed = {"dtype": DTYPES[config.precision], "enabled": config.precision != "fp32"}

    def step() -> None:
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    return Learner(
        model=model,
        plain=plain,
        optimizer=optimizer,
        scheduler=build_scheduler(optimizer, config, batches // config.accumulate),
        scaler=scaler,
        autocast=partial(torch.autocast, process.device.type, **mixed),
        no_sync=partial(no_sync, model),
        backward=lambda loss: scaler.scale(loss).backward(),
        step=step,
    )
