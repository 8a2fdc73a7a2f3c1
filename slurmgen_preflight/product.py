"""A matrix product on each GPU, and on one core of the CPU: is it right, and how long does it take?

The numbers are small integers, so that the product is exact on any hardware and in any order of summation.
"""

import time

SECONDS = 0.5
"Time for one device; the best of the products counts, since other processes delay some of them."
_CPU, _GPU, _PLAIN = 512, 4096, 40
"Rows: a product takes some milliseconds."
PLAIN = "plain Python"
"Instead of a device: its time is not comparable with that of PyTorch on the same processor."


def load_torch():
    """PyTorch and None, or None and why it cannot be imported."""
    try:
        import torch
    except Exception as error:  # a broken installation may raise anything
        return None, f"{type(error).__name__}: {error}".splitlines()[0]
    return torch, None


def products(torch):
    """For each device: its name, the best time in seconds, and what is wrong with the result, if anything."""
    if torch is None:
        return [_measured(PLAIN, plain_product)]
    torch.set_num_threads(1)
    gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    return [_with_torch(torch, device) for device in ["cpu", *gpus]]


def _with_torch(torch, device):
    try:
        return _measured(device, torch_product(torch, device))
    except Exception as error:  # such as an illegal access or missing memory, which CUDA reports in many ways
        return {"device": device, "seconds": None, "fault": str(error).splitlines()[0]}


def _measured(device, multiply):
    """The best time of a function that returns what is wrong with its product."""
    best, end = None, time.perf_counter() + SECONDS
    while best is None or time.perf_counter() < end:
        begin = time.perf_counter()
        fault = multiply()
        seconds = time.perf_counter() - begin
        if fault:
            return {"device": device, "seconds": seconds, "fault": fault}
        best = min(best or seconds, seconds)
    return {"device": device, "seconds": best, "fault": None}


def torch_product(torch, device):
    """A function that multiplies two matrices on a device, and compares the row sums with the right ones."""
    rows = _CPU if device == "cpu" else _GPU
    numbers = torch.arange(rows, device=device)
    left = ((numbers[:, None] * 7 + numbers * 3) % 5 - 2).float()
    right = ((numbers[:, None] * 5 + numbers * 11) % 7 - 3).float()
    expected = left.double().cpu() @ right.double().cpu().sum(1)

    def multiply():
        result = left @ right
        sums = result.double().sum(1).cpu()  # waits for the GPU
        return _fault(bool(sums.isnan().any()), bool((sums == expected).all()))

    multiply()  # loads the libraries
    return multiply


def plain_product():
    """The same without PyTorch: multiply two matrices in plain Python."""
    left = [[(row * 7 + column * 3) % 5 - 2.0 for column in range(_PLAIN)] for row in range(_PLAIN)]
    sums = [sum(map(float, row)) for row in multiply_plainly(left)]
    return _fault(any(value != value for value in sums), sums == _EXPECTED)


def multiply_plainly(left):
    """A matrix times the transpose of itself."""
    return [[sum(a * b for a, b in zip(row, other)) for other in left] for row in left]


def _expected():
    left = [[(row * 7 + column * 3) % 5 - 2 for column in range(_PLAIN)] for row in range(_PLAIN)]
    columns = [sum(column) for column in zip(*left)]
    return [sum(a * b for a, b in zip(row, columns)) for row in left]


_EXPECTED = _expected()


def _fault(is_nan, is_right):
    if is_nan:
        return "the product has NaN"
    return None if is_right else "the product is wrong"
