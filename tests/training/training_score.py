"""A script for the ranks of a test: they evaluate the model of a checkpoint without training."""

from images import load
from models import build_model
from options import DDP, parse_options
from ranks import start
from train_ddp import Training


def main() -> None:
    options = parse_options(DDP, framework="ddp")
    ranks = start(options)
    training = Training(options, ranks, build_model(options, ranks.device), *load(options, ranks))
    training.restore()
    score = training.evaluate(training.test).score("test")
    ranks.say(f"score {score['test_accuracy']!r} of {score['test_samples']}, loss {score['test_loss']:.9f}")
    ranks.leave()


if __name__ == "__main__":
    main()
