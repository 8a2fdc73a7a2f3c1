"""Download data sets on a host with a network, such as a login node: `python fetch_data.py cifar10 mnist`."""

import argparse
from pathlib import Path

from images import DOWNLOADED, fetch


def main() -> None:
    """Fetch each data set and report failures; one that is there is only checked."""
    parser = argparse.ArgumentParser(description="Fetch data sets, checked against their checksums.")
    parser.add_argument(
        "names", nargs="+", choices=DOWNLOADED, metavar="NAME", help=f"any of {', '.join(DOWNLOADED)}"
    )
    parser.add_argument("--data-dir", type=Path, default=Path("data"), metavar="DIR", help="default: data")
    asked = parser.parse_args()
    faults = [fetch(name, asked.data_dir) for name in asked.names]
    for name, fault in zip(asked.names, faults, strict=True):
        print(f"error: {fault}" if fault else f"{name} is in {asked.data_dir}", flush=True)
    raise SystemExit(any(faults))


if __name__ == "__main__":
    main()
