"""Lightning's Trainer for the layout of the Slurm step."""

import logging
import os
import sys
import warnings
from typing import Any

from lightning import Trainer
from lightning.pytorch.plugins.environments import SLURMEnvironment  # type: ignore[attr-defined]
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy

from .config import Config
from .process import Process
from .wrap import ddp_options

PRECISIONS = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}


def name_ranks_as_slurm_does() -> None:
    """Set the variables of torchrun for ranks that srun started."""
    if SLURMEnvironment.detect():
        slurm = SLURMEnvironment(auto_requeue=False)
        os.environ |= {
            "RANK": str(slurm.global_rank()),
            "WORLD_SIZE": str(slurm.world_size()),
            "LOCAL_RANK": str(slurm.local_rank()),
            "MASTER_ADDR": slurm.main_address,
            "MASTER_PORT": str(slurm.main_port),
        }


def be_quiet() -> None:
    """Suppress Lightning's messages about itself."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    logging.getLogger("lightning.fabric").setLevel(logging.WARNING)
    # It suggests workers, which data in memory do not need.
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    # Lightning uses a function that torch has renamed.
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")


def make_trainer(process: Process, config: Config) -> Trainer:
    """Return a Trainer for the layout of the launch; the classifier writes logs and checkpoints."""
    return Trainer(
        **_launch(process, config),
        accelerator="gpu" if process.device.type == "cuda" else "cpu",
        precision=PRECISIONS[config.precision],
        accumulate_grad_batches=config.accumulate,
        max_epochs=config.epochs,
        use_distributed_sampler=False,  # Lightning's sampler would repeat test samples
        num_sanity_val_steps=0,
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=sys.stdout.isatty(),
    )


def _launch(process: Process, config: Config) -> dict[str, Any]:
    if config.strategy == "fsdp":
        strategy: Any = ModelParallelStrategy(data_parallel_size=process.world_size, tensor_parallel_size=1)
    else:
        strategy = DDPStrategy(**ddp_options(config)) if process.world_size > 1 else "auto"
    if not SLURMEnvironment.detect():
        return {"devices": 1, "strategy": strategy}
    return {
        "devices": int(os.environ.get("SLURM_NTASKS_PER_NODE", "1")),
        "num_nodes": int(os.environ.get("SLURM_NNODES", "1")),
        "strategy": strategy,
        # The batch script requeues the job, not each rank.
        "plugins": [SLURMEnvironment(auto_requeue=False)],
    }
