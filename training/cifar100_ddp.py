"""Train a WideResNet on CIFAR-100 with DistributedDataParallel, started by torchrun or python."""

from core.config import CIFAR100, parse_config


def main() -> None:
    """Parse the flags before importing torch, so that `--help` is fast; then train."""
    config = parse_config(CIFAR100)
    from core.run_ddp import run

    run(config)


if __name__ == "__main__":
    main()
