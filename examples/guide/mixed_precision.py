"""Shows what the number formats can and cannot represent, and what follows: `python mixed_precision.py`."""

import math

import torch
from torch import nn

FORMATS = {  # name: bits of the exponent, stored bits of the fraction
    "fp32": (8, 23),
    "tf32": (8, 10),
    "bf16": (8, 7),
    "fp16": (5, 10),
}
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def limits(exponent: int, fraction: int) -> tuple[float, float, float, float]:
    """The largest number, the smallest normal one, the smallest of all, and the gap after 1."""
    bias = 2 ** (exponent - 1) - 1
    gap = 2.0**-fraction
    return (2 - gap) * 2.0**bias, 2.0 ** (1 - bias), gap * 2.0 ** (1 - bias), gap


def table() -> None:
    print("format  largest  smallest normal  smallest   gap after 1  decimal digits")
    for name, (exponent, fraction) in FORMATS.items():
        largest, normal, smallest, gap = limits(exponent, fraction)
        digits = (fraction + 1) * math.log10(2)
        print(f"{name:6}  {largest:7.1e}  {normal:15.1e}  {smallest:8.1e}  {gap:12.1e}  {digits:14.1f}")


# start-step
def gradients(
    dtype: torch.dtype, scale: bool = False, loss_factor: float = 1.0, unscale: bool = True
) -> torch.Tensor:
    """The gradients that one step of the optimizer applies."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(DEVICE.type, enabled=scale)
    inputs = torch.randn(32, 64, device=DEVICE)
    with torch.autocast(DEVICE.type, dtype=dtype, enabled=dtype != torch.float32):
        outputs = model(inputs)
    loss = outputs.float().square().mean() * loss_factor
    scaler.scale(loss).backward()
    if unscale:
        scaler.unscale_(optimizer)  # before clipping: the threshold is for the true gradients
    nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    scaler.step(optimizer)  # skips the step if a gradient is inf or NaN
    scaler.update()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


# end-step
def underflow() -> None:
    """A small loss has small gradients."""
    exact = gradients(torch.float32, loss_factor=1e-5)
    print("\nprecision  scaler  gradients that became 0  relative error")
    for name, dtype, scale in (
        ("bf16", torch.bfloat16, False),
        ("fp16", torch.float16, False),
        ("fp16", torch.float16, True),
    ):
        found = gradients(dtype, scale, loss_factor=1e-5)
        zero = (found[exact != 0] == 0).float().mean().item()
        error = ((found - exact).norm() / exact.norm()).item()
        print(f"{name:9}  {'yes' if scale else 'no':6}  {zero:23.0%}  {error:14.1%}")


def clipping() -> None:
    print("\nnorm of the applied gradients, max_norm 1")
    for name, unscale in (("unscale_, then clip", True), ("clip the scaled gradients", False)):
        print(f"{name:25}  {gradients(torch.float16, scale=True, unscale=unscale).norm().item():.1e}")


def overflow() -> None:
    """An inf in a gradient: the scaler skips the step and halves the scale."""
    weight = nn.Parameter(torch.ones((), device=DEVICE))
    scaler = torch.amp.GradScaler(DEVICE.type)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler.scale(weight * torch.inf).backward()
    scaler.step(optimizer)
    scaler.update()
    print(f"\nafter an overflow: weight {weight.item():g}, scale {scaler.get_scale():g}")


def updates() -> None:
    """A thousand updates of 0.001 to a weight of 1."""
    print("\nweight 1 after 1000 updates of 0.001")
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)):
        weight = torch.ones((), dtype=dtype)
        for _ in range(1000):
            weight += 0.001
        print(f"{name}: {weight.item():g}")


if __name__ == "__main__":
    table()
    underflow()
    clipping()
    overflow()
    updates()
