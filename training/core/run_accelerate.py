"""Training with accelerate, started by `accelerate launch`, or in one process without a launcher."""

from functools import partial

from accelerate import Accelerator, DistributedDataParallelKwargs, FullyShardedDataParallelPlugin

from .config import Config
from .data import make_loaders
from .loop import Fit, Learner
from .models import build_model
from .optimize import build_optimizer, build_scheduler
from .process import Process, agree, begin, join, out_of_memory_explained
from .report import Reporter
from .wrap import ddp_options, no_sync, without_buffers


def run(config: Config) -> None:
    """Train with `config`; the launcher sets the number of ranks."""
    process = join(config)
    accelerator = make_accelerator(process, config)
    begin(process, config)
    # Not prepared by accelerate: the loaders contain only this rank's part already, and each sample once.
    loaders = make_loaders(process, config)
    reporter = Reporter(process, config)
    learner = make_learner(accelerator, process, config, len(loaders.train))
    with out_of_memory_explained(process):
        Fit(learner, loaders, reporter, process, config).run()
    reporter.end(learner.plain)
    accelerator.end_training()


def make_accelerator(process: Process, config: Config) -> Accelerator:
    """Return the Accelerator; without `--precision`, it uses the option of the launcher."""
    fsdp = config.strategy == "fsdp"
    if fsdp and process.device.type == "cpu":
        agree("accelerate has FSDP only for GPUs. Use the ddp script for --strategy fsdp on CPUs.")
    return Accelerator(
        cpu=process.device.type == "cpu",
        mixed_precision=None if config.precision == "fp32" else config.precision,
        kwargs_handlers=[DistributedDataParallelKwargs(**ddp_options(config))],
        fsdp_plugin=FullyShardedDataParallelPlugin(fsdp_version=2) if fsdp else None,
    )


def make_learner(accelerator: Accelerator, process: Process, config: Config, batches: int) -> Learner:
    """Return the learner, for epochs of `batches` batches."""
    plain = build_model(config, process.device)
    model, optimizer = accelerator.prepare(plain, build_optimizer(plain, config, process.world_size))
    # accelerate cannot disable the synchronization of sharded gradients.
    no_meeting = no_sync if config.strategy == "fsdp" else accelerator.no_sync

    def step() -> None:
        optimizer.step()
        optimizer.zero_grad()

    return Learner(
        model=without_buffers(model),
        plain=accelerator.unwrap_model(model),
        optimizer=optimizer.optimizer,
        scheduler=build_scheduler(optimizer.optimizer, config, batches // config.accumulate),
        scaler=accelerator.scaler,
        autocast=accelerator.autocast,
        no_sync=partial(no_meeting, model),
        backward=accelerator.backward,
        step=step,
    )
