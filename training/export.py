"""Write the weights of a run as safetensors, which need no torch to read: `python export.py RUN`."""

import argparse
from pathlib import Path

import torch


def main() -> None:
    """Convert model-final.pt, or model-best.pt, of a --run-dir."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, metavar="RUN", help="a --run-dir of a finished run")
    parser.add_argument("--best", action="store_true", help="the model of the best epoch (--val-samples)")
    asked = parser.parse_args()
    source = asked.run / f"model-{'best' if asked.best else 'final'}.pt"
    if not source.exists():
        raise SystemExit(f"error: there is no {source}. Train to the end with --run-dir {asked.run} first.")
    try:
        from safetensors.torch import save_file
    except ModuleNotFoundError:
        raise SystemExit("error: safetensors is not installed. Install it: pip install safetensors") from None
    weights = torch.load(source, map_location="cpu", weights_only=True)
    save_file({name: each.contiguous() for name, each in weights.items()}, source.with_suffix(".safetensors"))
    print(f"wrote {source.with_suffix('.safetensors')}")


if __name__ == "__main__":
    main()
