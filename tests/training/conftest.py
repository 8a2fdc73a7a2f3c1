"""Makes the training's modules importable, and provides one launcher for all tests."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "training")]

from training_launch import Launcher, Ranks  # noqa: E402 (found only by the line above)


@pytest.fixture(scope="session")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Launcher:
    """One launcher for all tests, which share its data."""
    return Launcher(tmp_path_factory.mktemp("training") / "data")


@pytest.fixture(scope="session")
def ranks(launch: Launcher) -> Ranks:
    """The same without launchers, which take long to start."""
    return Ranks(launch.data_dir)
