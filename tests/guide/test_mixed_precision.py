"""docs/guide/mixed-precision.md: what the formats represent, and the order of a step."""

import re
import runpy
import sys

import pytest
import torch

from .pages import blocks, shown_output
from .running import GUIDE, python, run

SCRIPT = runpy.run_path(str(GUIDE / "mixed_precision.py"))


@pytest.mark.parametrize(
    ("name", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)]
)
def test_the_limits_of_a_format_are_those_of_torch(name: str, dtype: torch.dtype) -> None:
    largest, normal, _, gap = SCRIPT["limits"](*SCRIPT["FORMATS"][name])
    known = torch.finfo(dtype)
    assert (largest, normal, gap) == (known.max, known.smallest_normal, known.eps)


def test_the_page_shows_what_the_script_prints() -> None:
    completed = python("mixed_precision.py")
    shown = shown_output("mixed-precision", "python examples/guide/mixed_precision.py")
    table, underflow, *rest = shown.split("\n\n")
    printed = completed.out.split("\n\n")
    assert [printed[0], *printed[2:]] == [table, *rest]
    assert re.sub(r"[\d.]+%", "%", printed[1]) == re.sub(r"[\d.]+%", "%", underflow)


def share_of_zeros(dtype: torch.dtype, scale: bool) -> float:
    found = SCRIPT["gradients"](dtype, scale, loss_factor=1e-5)
    exact = SCRIPT["gradients"](torch.float32, loss_factor=1e-5)
    return float((found[exact != 0] == 0).float().mean())


def test_small_gradients_become_0_in_fp16() -> None:
    assert share_of_zeros(torch.float16, scale=False) > 0.5


@pytest.mark.parametrize(("dtype", "scale"), [(torch.float16, True), (torch.bfloat16, False)])
def test_the_scaler_or_bf16_keeps_small_gradients(dtype: torch.dtype, scale: bool) -> None:
    assert share_of_zeros(dtype, scale) < 0.01


def test_clipping_scaled_gradients_makes_them_too_small() -> None:
    right, wrong = (SCRIPT["gradients"](torch.float16, True, unscale=way).norm() for way in (True, False))
    assert wrong < right / 1000


def test_torch_has_the_settings_for_tf32_of_the_page() -> None:
    (code,) = (block for block in blocks("mixed-precision", "python") if "fp32_precision" in block)
    printed = "print(torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision)"
    completed = run(sys.executable, "-c", f"import torch\n{code}\n{printed}")
    assert completed.out == "tf32 tf32\n"
