"""Will several GPUs make this training faster? Measure compute and communication, then predict.

torchrun --standalone --nproc-per-node=2 several_gpus.py --model mlp
torchrun --standalone --nproc-per-node=2 several_gpus.py --model cnn
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel


def mlp():
    """A network for MNIST: 203,530 parameters, and two multiplications per parameter and sample."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))


def cnn():
    """Fewer parameters than the MLP, each used once per pixel: much more compute per transferred byte."""
    layers = []
    for inputs, outputs in ((1, 32), (32, 64), (64, 64)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


MODELS = {"mlp": mlp, "cnn": cnn}


def seconds(function, device, repeats):
    """The median duration of `function` on the slowest rank: every step waits for that rank."""
    durations = []
    for repeat in range(repeats + 3):
        dist.barrier()
        start = time.perf_counter()
        function()
        if device.type == "cuda":
            torch.cuda.synchronize()  # kernels run asynchronously; wait for them before reading the clock
        if repeat >= 3:  # the first calls allocate memory and select kernels
            durations.append(time.perf_counter() - start)
    slowest = torch.tensor(durations, device=device).median()
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.item()


def step(model, samples, device):
    """Return a function that trains `model` on one batch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images, labels = (
        torch.randn(samples, 1, 28, 28, device=device),
        torch.zeros(samples, device=device).long(),
    )

    def train():
        optimizer.zero_grad()
        cross_entropy(model(images), labels).backward()
        optimizer.step()

    return train


def predict(alone, share, communication):
    """The speed-up if communication and compute never overlap, and if they overlap completely."""
    return alone / (share + communication), alone / max(share, communication)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS, default="mlp")
    parser.add_argument("--batch-size", type=int, default=64, help="samples per step, over all GPUs")
    parser.add_argument("--repeats", type=int, default=50)
    args = parser.parse_args()

    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    ranks = dist.get_world_size()

    model = MODELS[args.model]().to(device)
    gradients = torch.zeros(sum(p.numel() for p in model.parameters()), device=device)
    alone = seconds(step(model, args.batch_size, device), device, args.repeats)
    share = seconds(step(model, args.batch_size // ranks, device), device, args.repeats)
    communication = seconds(lambda: dist.all_reduce(gradients), device, args.repeats)
    distributed = DistributedDataParallel(model)
    measured = seconds(step(distributed, args.batch_size // ranks, device), device, args.repeats)

    if dist.get_rank() == 0:
        low, high = predict(alone, share, communication)
        megabytes = gradients.numel() * gradients.element_size() / 1e6
        print(f"{args.model} on {ranks} ranks of {device.type}, batch {args.batch_size}")
        print(f"one rank, whole batch        {alone * 1e3:8.3f} ms")
        print(f"each rank, its share         {share * 1e3:8.3f} ms")
        print(f"all-reduce of {megabytes:6.2f} MB      {communication * 1e3:8.3f} ms")
        print(f"predicted speed-up           {low:8.2f} to {high:.2f}")
        print(f"predicted efficiency         {low / ranks:8.0%} to {high / ranks:.0%}")
        print(f"measured with DDP            {measured * 1e3:8.3f} ms, speed-up {alone / measured:.2f}")
    dist.barrier()  # no rank leaves while another still communicates
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
