"""The start of commands, compared with importing their libraries. Medians of 11 alternating runs."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

RUNS = 11
SLURMGEN = str(Path(sys.executable).with_name("slurmgen"))
PAIRS = {
    "slurmgen render --framework ddp --gpus 4": (
        [SLURMGEN, "render", "--framework", "ddp", "--gpus", "4"],
        "import click, jinja2",
        1.3,
    ),
    "slurmgen --help": ([SLURMGEN, "--help"], "import click", 1.3),
}


def seconds(command: Sequence[str], environ: dict[str, str]) -> float:
    """Wall time of one whole process."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environ)
    return time.perf_counter() - start


def main() -> None:
    """Print a line for each pair: the time, the baseline, the ratio and its target."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        environ |= {"XDG_CACHE_HOME": folder, "XDG_CONFIG_HOME": folder}
        for name, (ours, imports, goal) in PAIRS.items():
            floor = [sys.executable, "-c", imports]
            for command in (ours, floor):
                seconds(command, environ)  # the first one writes caches
            times = [(seconds(ours, environ), seconds(floor, environ)) for _ in range(RUNS)]
            mine, bare = (statistics.median(column) for column in zip(*times, strict=True))
            print(
                f"{name}: {mine * 1e3:.1f} ms; python -c '{imports}': {bare * 1e3:.1f} ms; "
                f"ratio {mine / bare:.2f} (goal: at most {goal})"
            )


if __name__ == "__main__":
    main()
