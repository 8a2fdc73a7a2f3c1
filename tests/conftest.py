"""Every test starts from a clean environment and a config folder of its own."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

pytest_plugins = ["tests.support.machines"]
REPOSITORY = Path(__file__).parent.parent
Run = Callable[..., "subprocess.CompletedProcess[str]"]

# The same examples each time: a failure can be repeated. `--hypothesis-profile=default` explores.
settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")

# Commands of tests that run in the background would ignore ^C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew")


LONG = (
    "tests/scenarios/test_requeue.py",
    "tests/training/test_training_gpu.py",
    "tests/scenarios/test_failing_ranks.py",
    "tests/training/test_training_pairs.py",
)
"""Files that take minutes, which start first, so that no worker ends with one.

Those whose jobs wait alternate with those that compute, so that two workers use both cores.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.nodeid.partition("::")[0], len(LONG)))


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in list(os.environ):
        if name.startswith(("SLURM", "SBATCH", "SQUEUE", "SSH_", "OMP_")):
            monkeypatch.delenv(name)
    home = tmp_path_factory.mktemp("home")
    for name in ("CONFIG", "STATE", "CACHE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))


@pytest.fixture
def config_dir(clean_environment: None) -> Path:
    """The user's own slurmgen config folder, empty."""
    folder = Path(os.environ["XDG_CONFIG_HOME"], "slurmgen")
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def slurmgen(tmp_path: Path) -> Run:
    """Run the command line as the user does, from an empty folder."""

    def run(*args: str, cwd: Path = tmp_path, **options: object) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "slurmgen", *args]
        return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, **options)  # type: ignore[call-overload,no-any-return]

    return run
