"""A script for the ranks of a test: they evaluate the model of a checkpoint without training."""

from core.checkpoint import Shelf
from core.config import MNIST, parse_config
from core.data import make_loaders
from core.loop import evaluate
from core.process import begin, join, leave, say
from core.report import Reporter
from core.run_ddp import make_learner
from core.state import restore


def main() -> None:
    config = parse_config(MNIST)
    process = join(config)
    begin(process, config)
    loaders = make_loaders(process, config)
    learner = make_learner(process, config, len(loaders.train))
    restore(Shelf(process, config), learner, Reporter(process, config), process, config)
    score = evaluate(learner, loaders.test, process)
    say(f"score {score.accuracy!r} of {score.samples}, loss {score.loss:.9f}")
    leave(config)
