"""A script for the ranks of a test: accelerate's FSDP on CPUs, which it supports only on GPUs."""

from accelerate import Accelerator, FullyShardedDataParallelPlugin
from accelerate.utils import DistributedType
from core import run_accelerate
from core.config import MNIST, Config, parse_config
from core.process import Process


def make_accelerator(_process: Process, _config: Config) -> Accelerator:
    accelerator = Accelerator(cpu=True)
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2)
    accelerator.state._shared_state.update(distributed_type=DistributedType.FSDP, fsdp_plugin=plugin)
    assert accelerator.is_fsdp2
    return accelerator


def main() -> None:
    run_accelerate.make_accelerator = make_accelerator
    run_accelerate.run(parse_config(MNIST))
