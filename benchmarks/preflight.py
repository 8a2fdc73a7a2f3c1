"""How often does the check of nodes call healthy nodes bad, while other programs load the machine?

    python benchmarks/preflight.py --runs 200 --load 4

Eight nodes are eight processes on this machine; more processes keep its cores busy. PyTorch is not used.
"""

import argparse
import multiprocessing
import statistics
import tempfile
from pathlib import Path

from tests.preflight.checks import check

NODES = 8


def burn() -> None:
    """Keep a core busy."""
    while True:
        sum(range(100_000))


def main() -> None:
    """Run the checks, and print the false alarms and the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--load", type=int, default=4, help="processes that keep a core busy")
    options = parser.parse_args()
    busy = [multiprocessing.Process(target=burn, daemon=True) for _ in range(options.load)]
    for process in busy:
        process.start()
    seconds, alarms = [], 0
    for number in range(options.runs):
        with tempfile.TemporaryDirectory(prefix="preflight-") as folder:
            result = check(Path(folder), NODES)
        seconds.append(result.seconds)
        if result.status:
            alarms += 1
            print(f"run {number}: {result.findings}", flush=True)
    longest = max(seconds)
    print(
        f"{alarms} false alarms in {options.runs} runs of {NODES} nodes with {options.load} busy processes; "
        f"median {statistics.median(seconds):.1f} s, longest {longest:.1f} s"
    )


if __name__ == "__main__":
    main()
