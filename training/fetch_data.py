"""Download data sets on a host with a network, such as a login node: `python fetch_data.py cifar10 mnist`."""

import argparse
import sys
from pathlib import Path

SETS = {"cifar10": "cifar", "cifar100": "cifar100", "mnist": "mnist", "digits": "mnist"}


def main() -> None:
    """Download each data set and report failures; an existing one is only checked."""
    parser = argparse.ArgumentParser(description="Fetch data sets, checked against their checksums.")
    parser.add_argument("names", nargs="+", choices=SETS, metavar="NAME", help=f"any of {', '.join(SETS)}")
    parser.add_argument("--data-dir", type=Path, default=Path("data"), metavar="DIR", help="default: data")
    asked = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))  # for `python -m training.fetch_data`
    from core.config import TASKS
    from core.data import fetch

    faults = [fetch(TASKS[SETS[name]], name, asked.data_dir) for name in asked.names]
    for name, fault in zip(asked.names, faults, strict=True):
        print(f"error: {fault}" if fault else f"{name} is in {asked.data_dir}", flush=True)
    raise SystemExit(any(faults))


if __name__ == "__main__":
    main()
