"""Print where each rank runs, how its GPUs are linked, and how fast the ranks exchange data.

torchrun --standalone --nproc-per-node=4 topology.py
"""

import argparse
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import torch
import torch.distributed as dist

NODES = Path("/sys/devices/system/node")


def numbers(cpulist: str) -> set[int]:
    """The kernel's list `0-3,8` as a set."""
    ends = [part.split("-") for part in cpulist.strip().split(",") if part]
    return {number for first, *last in ends for number in range(int(first), int((last or [first])[0]) + 1)}


def ranges(values: set[int]) -> str:
    """The inverse of numbers()."""
    starts = sorted(value for value in values if value - 1 not in values)
    ends = sorted(value for value in values if value + 1 not in values)
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def numa_nodes(cpus: set[int]) -> str:
    """The NUMA nodes that hold these CPUs."""
    lists = {
        int(path.parent.name[4:]): numbers(path.read_text()) for path in NODES.glob("node[0-9]*/cpulist")
    }
    return ranges({node for node, held in lists.items() if held & cpus}) or "unknown"


def numa_node_of(device: Path) -> str:
    """The NUMA node of a PCIe device; -1 is what the kernel writes where it does not know."""
    path = device / "numa_node"
    return path.read_text().strip() if path.exists() else "unknown"


def gpu() -> str:
    """This rank's GPU, its PCIe address and its NUMA node."""
    if not torch.cuda.is_available():
        return "none"
    device = torch.cuda.get_device_properties(torch.cuda.current_device())
    address = f"{device.pci_domain_id:04x}:{device.pci_bus_id:02x}:{device.pci_device_id:02x}.0"
    return f"{device.name} at {address}, NUMA node {numa_node_of(Path('/sys/bus/pci/devices', address))}"


def nics() -> str:
    """The network adapters that support RDMA, with their NUMA nodes."""
    found = sorted(Path("/sys/class/infiniband").glob("*"))
    return ", ".join(f"{nic.name} on NUMA node {numa_node_of(nic / 'device')}" for nic in found) or "none"


def place() -> str:
    cpus = os.sched_getaffinity(0)
    return (
        f"host {socket.gethostname()}; CPUs {ranges(cpus)}; NUMA nodes {numa_nodes(cpus)}; "
        f"GPU {gpu()}; RDMA adapters {nics()}"
    )


def seconds(exchange: object, repeats: int = 10) -> float:
    """The mean time of an exchange, after a first one that sets up the connections."""
    for count in (2, repeats):
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(count):
            exchange()  # type: ignore[operator]
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()
    return (time.perf_counter() - begin) / count


def bandwidths(megabytes: float) -> list[tuple[str, float]]:
    """GB/s of rank 0 to each other rank, and of an all-reduce (bus bandwidth, as nccl-tests defines it)."""
    tensor = torch.ones(int(megabytes * 250_000), device=DEVICE)

    def send_to(peer: int) -> None:
        if RANK == 0:
            dist.send(tensor, peer)
        elif peer == RANK:
            dist.recv(tensor, 0)

    size = tensor.numel() * 4 / 1e9
    pairs = [(f"0 -> {peer}", size / seconds(lambda peer=peer: send_to(peer))) for peer in range(1, WORLD)]
    return [*pairs, ("all-reduce", size * 2 * (WORLD - 1) / WORLD / seconds(lambda: dist.all_reduce(tensor)))]


parser = argparse.ArgumentParser()
parser.add_argument("--megabytes", type=float, nargs="+", default=[0.1, 1, 10, 100])
options = parser.parse_args()
CUDA = torch.cuda.is_available()
LOCAL_RANK = int(os.environ["LOCAL_RANK"])
DEVICE = torch.device("cuda", LOCAL_RANK) if CUDA else torch.device("cpu")
if CUDA:
    torch.cuda.set_device(DEVICE)
dist.init_process_group("nccl" if CUDA else "gloo")
RANK, WORLD = dist.get_rank(), dist.get_world_size()
places: list[str] = [""] * WORLD
dist.all_gather_object(places, place())
if RANK == 0:
    print("\n".join(f"rank {rank}: {text}" for rank, text in enumerate(places)), flush=True)
if LOCAL_RANK == 0 and (smi := shutil.which("nvidia-smi")):
    print(subprocess.run([smi, "topo", "-m"], capture_output=True, text=True).stdout, flush=True)
for megabytes in options.megabytes:
    for name, rate in bandwidths(megabytes):
        if RANK == 0:
            print(f"{megabytes:g} MB {name}: {rate:.3g} GB/s", flush=True)
dist.barrier()  # no rank leaves while another still communicates
dist.destroy_process_group()
