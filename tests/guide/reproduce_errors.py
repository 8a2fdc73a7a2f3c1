"""Causes the errors of docs/guide/errors.md that Python reports, one after the other, and prints each."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

FOLDER = Path(tempfile.mkdtemp())


class Dies(Dataset[int]):
    """A worker that reads it gets this signal, as from the kernel."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        os.kill(os.getpid(), self.number)
        return index


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.used(x)


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        once = checkpoint(self.layer, x, use_reentrant=True)
        return checkpoint(self.layer, once, use_reentrant=True)


def no_environment() -> None:
    dist.init_process_group("gloo")


def no_group() -> None:
    dist.get_rank()


def group_twice() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


def unused_parameter() -> None:
    model = DistributedDataParallel(Unused())
    for _ in range(2):
        model(torch.ones(1, 2)).sum().backward()


def parameter_twice() -> None:
    x = torch.ones(1, 2, requires_grad=True)
    model = DistributedDataParallel(Twice(), find_unused_parameters=True)
    model(x).sum().backward()


def in_place() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    y += 1
    y.sum().backward()


def one_sample() -> None:
    nn.BatchNorm1d(3)(torch.ones(1, 3))


def wrapped_state() -> None:
    nn.Linear(2, 2).load_state_dict({"module.weight": torch.ones(2, 2)})


def other_size() -> None:
    nn.Linear(2, 2).load_state_dict(nn.Linear(2, 3).state_dict())


def not_only_weights() -> None:
    torch.save(FOLDER, FOLDER / "model.pt")
    torch.load(FOLDER / "model.pt")


def worker_killed() -> None:
    list(DataLoader(Dies(signal.SIGKILL), num_workers=1))


def worker_bus_error() -> None:
    list(DataLoader(Dies(signal.SIGBUS), num_workers=1))


def too_large_tensor() -> None:
    torch.empty(2**50)


def too_large_bytes() -> None:
    bytearray(2**60)


def port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_server(server.getsockname())


def no_module() -> None:
    import no_such_module  # noqa: F401


def no_file() -> None:
    Path("data/train.bin").read_text()


def not_executable() -> None:
    script = FOLDER / "train.sh"
    script.write_text("exit\n")
    subprocess.run([str(script)], check=True)


def no_library() -> None:
    module = FOLDER / "compiled.so"
    source = "int main;\n"
    library = FOLDER / "libgone.so"
    compiler = ["cc", "-shared", "-fPIC", "-x", "c", "-"]
    subprocess.run([*compiler, "-o", library], input=source, text=True, check=True)
    subprocess.run(
        [*compiler, "-o", module, "-L", FOLDER, "-Wl,--no-as-needed", "-lgone"],
        input=source,
        text=True,
        check=True,
    )
    library.unlink()
    sys.path.insert(0, str(FOLDER))
    import compiled  # noqa: F401


def file_exists() -> None:
    FOLDER.mkdir()


def full_disk() -> None:
    with Path("/dev/full").open("w") as file:
        file.write("x" * 10**6)


ERRORS: list[Callable[[], None]] = [
    no_environment,
    no_group,
    group_twice,
    unused_parameter,
    parameter_twice,
    in_place,
    one_sample,
    wrapped_state,
    other_size,
    not_only_weights,
    worker_killed,
    worker_bus_error,
    too_large_tensor,
    too_large_bytes,
    port_in_use,
    no_module,
    no_file,
    not_executable,
    no_library,
    file_exists,
    full_disk,
]

if __name__ == "__main__":
    for error in ERRORS:
        try:
            error()
        except Exception:
            sys.stderr.write(f"== {error.__name__}\n{traceback.format_exc()}\n")
    os._exit(0)  # the group is left as the errors have left it
