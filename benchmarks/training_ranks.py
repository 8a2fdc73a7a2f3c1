"""One rank of a comparison of loops: `training_ranks.py NAME STYLES ROUNDS [flags of train_ddp.py]`.

Rank 0 prints one line of JSON.
"""

import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable

import torch
import torch.distributed as dist
from images import patterns
from models import build_model
from options import DDP, TASKS, parse_options
from plain_ddp import Plain
from ranks import Ranks, start
from torch.utils.data import TensorDataset
from train_ddp import Training

SECONDS = 1.0  # a round has as many epochs as the bundled loop trains in this time
Work = Callable[[int], object]


def main() -> None:
    """Measure all loops alternately."""
    name, styles, rounds, *flags = sys.argv[1:]
    options = parse_options(DDP, argv=flags, framework="ddp")
    ranks = start(options)
    task = TASKS[options.task]
    data = TensorDataset(*patterns(options.limit, task.channels, task.side))
    training = Training(options, ranks, build_model(options, ranks.device), data, None, data)
    works: dict[str, Work] = {"bundled": lambda number: training.train_epoch(number, 0, [0.0] * 3)}
    works |= {style: Plain(style, options, data, ranks.device).epoch for style in styles.split(",")}
    speeds = measure(works, int(rounds), len(data), ranks)
    result = {"name": name, "steps": len(training.train), **compared(speeds)}
    result |= blocking_calls(works["bundled"], ranks)
    if ranks.rank == 0:
        ranks.say(json.dumps(result))
    ranks.leave()


def measure(works: dict[str, Work], rounds: int, samples: int, ranks: Ranks) -> dict[str, list[float]]:
    """Return the images per second of each loop in each round."""
    for work in works.values():
        seconds(work, 1, ranks)  # compiles, selects kernels and fills caches
    once = max(ranks.gather(seconds(works["bundled"], 1, ranks)))
    epochs = max(round(SECONDS / once), 1)
    turns = [{name: seconds(work, epochs, ranks) for name, work in works.items()} for _ in range(rounds)]
    return {name: [samples * epochs / turn[name] for turn in turns] for name in works}


def seconds(work: Work, epochs: int, ranks: Ranks) -> float:
    """Return the wall time of some epochs, until the last rank has finished."""
    dist.barrier()
    begin = time.perf_counter()
    for number in range(epochs):
        ranks.beat("round")
        work(number)
    if ranks.device.type == "cuda":
        torch.cuda.synchronize()
    dist.barrier()
    return time.perf_counter() - begin


def blocking_calls(work: Work, ranks: Ranks) -> dict[str, object]:
    """Return how often the CPU waits for the GPU in an epoch of the bundled loop, and where."""
    if ranks.device.type != "cuda":
        return {}
    torch.cuda.set_sync_debug_mode("warn")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work(0)
    torch.cuda.set_sync_debug_mode("default")
    places = [f"{each.filename}:{each.lineno}" for each in caught if "synchronizing" in str(each.message)]
    return {"blocking_calls": len(places), "blocking_places": sorted(set(places))}


def compared(speeds: dict[str, list[float]]) -> dict[str, object]:
    """Return the median speeds, and how many times as fast the bundled loop is as each other one."""
    mine = speeds["bundled"]
    ratios = {
        name: [one / other for one, other in zip(mine, theirs, strict=True)]
        for name, theirs in speeds.items()
        if name != "bundled"
    }
    return {
        "images_per_second": {name: round(statistics.median(each), 1) for name, each in speeds.items()},
        "ratio": {name: round(statistics.median(each), 3) for name, each in ratios.items()},
        "range": {name: [round(min(each), 3), round(max(each), 3)] for name, each in ratios.items()},
    }


if __name__ == "__main__":
    main()
