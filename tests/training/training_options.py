"""Options and ranks for tests of single functions."""

from argparse import Namespace

import torch
from device import settle
from options import DDP, STRATEGY, parse_options

CPU = torch.device("cpu")
ALONE = Namespace(rank=0, world_size=1, local_rank=0, host="here", device=CPU, gather=lambda value: [value])


def parsed(*flags: str, task: str = "mnist", framework: str = "ddp") -> Namespace:
    """Options that need no network."""
    argv = ["--task", task, "--data", "synthetic", *flags]
    return parse_options(DDP, STRATEGY, argv=argv, framework=framework)


def settled(*flags: str, task: str = "mnist") -> Namespace:
    """Options of a run on CPUs."""
    options = parsed(*flags, task=task)
    assert settle(options, CPU) is None
    return options
