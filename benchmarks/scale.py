"""Requests for 1, 64 and 1,024 nodes to scripts: time and size. Medians of 11 alternating rounds."""

import statistics
import time

from slurmgen import Request, load_site, render, resolve

ROUNDS, SCRIPTS = 11, 100
NODES = (1, 64, 1024)
SITE = load_site("generic")


def script(nodes: int) -> str:
    """The script of a job with 4 GPUs on each node."""
    return render(resolve(Request(framework="srun", gpus=4 * nodes, nodes=nodes, script="train.py"), SITE))


def milliseconds(nodes: int) -> float:
    """Time per script."""
    start = time.perf_counter()
    for _ in range(SCRIPTS):
        script(nodes)
    return (time.perf_counter() - start) / SCRIPTS * 1e3


def main() -> None:
    """Print the times, the sizes and the ratios to one node."""
    milliseconds(1)  # compiles the templates
    rounds = [[milliseconds(nodes) for nodes in NODES] for _ in range(ROUNDS)]
    times = [statistics.median(column) for column in zip(*rounds, strict=True)]
    for nodes, each in zip(NODES, times, strict=True):
        size = len(script(nodes))
        print(f"{nodes:,} nodes: {size:,} bytes, {each:.2f} ms, ratio {each / times[0]:.2f} (goal: 1.0)")


if __name__ == "__main__":
    main()
