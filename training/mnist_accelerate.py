"""Train a small MLP on MNIST with accelerate, started by `accelerate launch` or python."""

from core.config import MNIST, parse_config


def main() -> None:
    """Parse the flags before importing torch, so that `--help` is fast; then train."""
    config = parse_config(MNIST)
    from core.run_accelerate import run

    run(config)


if __name__ == "__main__":
    main()
