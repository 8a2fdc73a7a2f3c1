"""A script for the ranks of a test: they print the types that FSDP computes and keeps a model in."""

import torch
from device import DTYPES
from models import build_model
from options import parse_options
from ranks import start
from shard import shard
from torch import nn


def main() -> None:
    options = parse_options(framework="fsdp", strategy="fsdp")
    ranks = start(options)
    model = shard(build_model(options, ranks.device), options)
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(
                lambda module, *_, name=name: ranks.say(f"{name} gathers {module.weight.dtype}")
            )
    with torch.autocast("cpu", DTYPES[options.precision]):
        model(torch.randint(256, (4, 3, 32, 32), dtype=torch.uint8)).sum().backward()
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        ranks.say(f"{name} keeps {value.dtype}")
    ranks.leave(at_once=True)


if __name__ == "__main__":
    main()
