"""Training with accelerate: as `accelerate launch` starts it, or in one process without a launcher."""

import torch
from accelerate import Accelerator

from .config import Config
from .data import make_loaders
from .loop import fit
from .measure import report_end
from .models import build_model, build_optimizer
from .process import Process, begin


def run(config: Config) -> None:
    """Train as `config` says; the number of ranks and the mixed precision are the launcher's flags."""
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    process = _process(accelerator)
    begin(process, config)
    # Not prepared by accelerate: the loaders already hold this rank's part, and every test sample only once.
    loaders = make_loaders(process, config)
    model = build_model(config).to(process.device)
    model, optimizer = accelerator.prepare(model, build_optimizer(model, config))
    result = fit(model, optimizer, loaders, process, config, backward=accelerator.backward)
    report_end(process, config, result, model)
    accelerator.end_training()


def _process(accelerator: Accelerator) -> Process:
    return Process(
        rank=accelerator.process_index,
        world_size=accelerator.num_processes,
        local_rank=accelerator.local_process_index,
        device=accelerator.device,
    )
