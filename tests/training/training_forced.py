"""train_accelerate.py for the ranks of a test: with FSDP on CPUs, which accelerate supports only on GPUs."""

import ranks
import train_accelerate
from accelerate import Accelerator, PartialState
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType

make_accelerator = train_accelerate.make_accelerator


def forced(options: object, ranks: object, model: object) -> Accelerator:
    plugin = train_accelerate.make_fsdp_plugin(options, model)
    options.strategy = "ddp"  # type: ignore[attr-defined]
    accelerator = make_accelerator(options, ranks, model)
    options.strategy = "fsdp"  # type: ignore[attr-defined]
    accelerator.state._shared_state["fsdp_plugin"] = plugin
    PartialState._shared_state["distributed_type"] = DistributedType.FSDP  # AcceleratorState() reads it there
    assert AcceleratorState().is_fsdp2
    return accelerator


def main() -> None:
    ranks.fault = lambda *_: None
    train_accelerate.make_accelerator = forced
    train_accelerate.main()


if __name__ == "__main__":
    main()
