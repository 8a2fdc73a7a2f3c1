"""Train a WideResNet on CIFAR-100 with accelerate: `accelerate launch` starts it, or python alone."""

from core.config import CIFAR100, parse_config


def main() -> None:
    """Read the flags first, so that `--help` need not wait for torch; then train."""
    config = parse_config(CIFAR100)
    from core.run_accelerate import run

    run(config)


if __name__ == "__main__":
    main()
