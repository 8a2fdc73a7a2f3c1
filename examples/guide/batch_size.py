"""Trains one small model with many batch sizes and learning rates: `python batch_size.py -o results.json`.

Every run sees the same number of samples. The learning rate of the smallest batch is the best of a grid; the
rules scale it for the other batches.
"""

import argparse
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import median

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

# start-rules
RULES = {
    "none": lambda factor: 1.0,
    "square root": lambda factor: factor**0.5,
    "linear": lambda factor: factor,
}


def scaled(base_lr: float, base_batch: int, global_batch: int, rule: str) -> float:
    """The learning rate for a global batch, if `base_lr` is right for `base_batch`."""
    return base_lr * RULES[rule](global_batch / base_batch)


# end-rules
OPTIMIZERS = {
    "SGD": lambda parameters, lr: torch.optim.SGD(parameters, lr, momentum=0.9),
    "AdamW": lambda parameters, lr: torch.optim.AdamW(parameters, lr),
}
WORST = 10.0
"The loss of a run that diverged."


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """1,797 images of 8 x 8 pixels, and their labels."""
    data = load_digits()
    return torch.tensor(data.data / 16, dtype=torch.float32), torch.tensor(data.target)


# start-train
def train(optimizer: str, batch: int, lr: float, warmup: float, seed: int, epochs: int) -> float:
    """The loss over all training samples after the last step; `warmup` is a share of the steps."""
    torch.manual_seed(seed)
    images, labels = digits()
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    update = OPTIMIZERS[optimizer](model.parameters(), lr)
    steps = epochs * len(images) // batch
    ramp = max(1, round(warmup * steps))
    schedule = LambdaLR(update, lambda step: min(1.0, (step + 1) / ramp))
    order = torch.cat([torch.randperm(len(images)) for _ in range(epochs)])
    for chosen in order[: steps * batch].split(batch):
        nn.functional.cross_entropy(model(images[chosen]), labels[chosen]).backward()
        update.step()
        update.zero_grad()
        schedule.step()
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model(images), labels).item()
    return loss if loss < WORST else WORST  # NaN is not less


# end-train
def measured(asked: argparse.Namespace, **setting: float | str) -> dict:
    """The setting, and the median, lowest and highest loss over the seeds."""
    losses = [train(**setting, seed=seed, epochs=asked.epochs) for seed in range(asked.seeds)]
    found = {"loss": median(losses), "low": min(losses), "high": max(losses)}
    return setting | {name: round(loss, 4) for name, loss in found.items()}


def grid(asked: argparse.Namespace, optimizer: str) -> Iterator[dict]:
    for batch, lr in product(asked.batches, asked.grid):
        yield measured(asked, optimizer=optimizer, batch=batch, lr=lr, warmup=0.0)


def by_rule(asked: argparse.Namespace, optimizer: str, lr: float) -> Iterator[dict]:
    for batch, rule, warmup in product(asked.batches, RULES, (0.0, 0.2)):
        scaled_lr = scaled(lr, asked.batches[0], batch, rule)
        run = measured(asked, optimizer=optimizer, batch=batch, lr=scaled_lr, warmup=warmup)
        yield {"rule": rule} | run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--optimizers", nargs="+", choices=OPTIMIZERS, default=list(OPTIMIZERS))
    parser.add_argument("--batches", nargs="+", type=int, default=[16, 32, 64, 128, 256, 512])
    parser.add_argument("--grid", nargs="+", type=float, default=[2.0**power for power in range(-11, 1)])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path, required=True)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, list] = {"grid": [], "rules": []}
    for optimizer in asked.optimizers:
        runs = list(grid(asked, optimizer))
        best = min((run for run in runs if run["batch"] == asked.batches[0]), key=lambda run: run["loss"])
        print(
            f"{optimizer}: batch {best['batch']}, best lr {best['lr']:g}, loss {best['loss']:.3f}", flush=True
        )
        results["grid"] += runs
        results["rules"] += by_rule(asked, optimizer, best["lr"])
    rows = [f'"{name}": [\n' + ",\n".join(map(json.dumps, runs)) + "\n]" for name, runs in results.items()]
    asked.output.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
