"""Every test starts from a clean environment and a config folder of its own."""

import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support import command_server

pytest_plugins = ["tests.support.machines"]
REPOSITORY = Path(__file__).parent.parent
AT_EXIT = str(REPOSITORY / "tests" / "support" / "at_exit")
"PYTHONPATH of training on CPUs: without it, gloo may abort a script that has ended; see there."
Run = Callable[..., "subprocess.CompletedProcess[str]"]

# No test may depend on one processor: each kind of kernel, and each number of threads, adds in another order.
KERNELS = {
    "native": {},
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "DNNL_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
    },
    "sse4": {
        "ATEN_CPU_CAPABILITY": "default",
        "DNNL_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "OPENBLAS_CORETYPE": "Nehalem",
    },
    "two-threads": {"OMP_NUM_THREADS": "2"},
}
CONDITIONS = (*KERNELS, "one-core", "busy")


def condition(asked: str) -> str:
    """The condition of this run; `by-commit` takes one of `KERNELS`, so that CI tries all of them in turn."""
    if asked == "by-commit":
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True)
        asked = list(KERNELS)[int(head.stdout or "0", 16) % len(KERNELS)]
    assert asked in CONDITIONS, f"TEST_CONDITION is one of: {', '.join(CONDITIONS)}"
    has_avx2 = " avx2 " in Path("/proc/cpuinfo").read_text()  # without, `avx2` is an illegal instruction
    return asked if asked != "avx2" or has_avx2 else "native"


CONDITION = os.environ["TEST_CONDITION"] = condition(os.environ.get("TEST_CONDITION", "native"))
os.environ.update(KERNELS.get(CONDITION, {}))
THREADS = KERNELS.get(CONDITION, {}).get("OMP_NUM_THREADS", "1")
if CONDITION == "one-core":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

# The same examples each time: a failure can be repeated. `--hypothesis-profile=default` explores.
# No deadline: on a busy machine an example may take any time.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# Commands of tests that run in the background would ignore ^C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# What the processes of a run share: the server of tests/support/fork_server.py, and compiled models.
# Models that were compiled on another processor, or for other kernels, may crash.
OWNER = int(os.environ.setdefault("TEST_RUN_OWNER", str(os.getpid())))
RUN = os.environ.setdefault("TEST_RUN_FOLDER", str(Path(tempfile.gettempdir(), f"test-run-{OWNER}")))
os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{RUN}/compiled"


def pytest_unconfigure() -> None:
    if os.getpid() == OWNER:
        shutil.rmtree(RUN, ignore_errors=True)


def pytest_configure(config: pytest.Config) -> None:
    """Keep two cores busy, if asked."""
    if CONDITION == "busy" and not hasattr(config, "workerinput"):
        loops = [subprocess.Popen(["sh", "-c", "while kill -0 $PPID; do :; done"]) for _ in range(2)]
        config.add_cleanup(lambda: [loop.kill() for loop in loops])


def pytest_report_header() -> str:
    return f"condition: {CONDITION}; to repeat it: TEST_CONDITION={CONDITION} make test"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="without Slurm, PyTorch, sshd or a browser")
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew")


FIRST = (
    "tests/scenarios/test_requeue.py",
    "tests/training/test_training_gpu.py",
    *(f"tests/{name}" for name in ("scenarios", "training", "guide", "campaign", "security", "submit")),
)
"The files that take longest start first, so that no worker ends with one of them."


NOT_QUICK = {"twin", "Testbed", "testbed", "cluster", "sshd", "server", "either", "torch", "warm", "browser"}
"Names of fixtures and of imports."


def is_quick(item: pytest.Item) -> bool:
    """Whether a test needs none of them, by its fixtures and by what its file imports."""
    assert isinstance(item, pytest.Function)
    return NOT_QUICK.isdisjoint(item.fixturenames) and NOT_QUICK.isdisjoint(vars(item.module))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("quick"):
        items[:] = filter(is_quick, items)
    items.sort(key=lambda item: [not item.nodeid.startswith(first) for first in FIRST])


HOMES = itertools.count()


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in list(os.environ):
        if name.startswith(("SLURM", "SBATCH", "SQUEUE", "SSH_", "OMP_")):
            monkeypatch.delenv(name)
    # Not mktemp, which lists the folders of all earlier tests to choose a number.
    home = tmp_path_factory.getbasetemp() / "homes" / str(next(HOMES))
    home.mkdir(0o700, parents=True)
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
        environ = options.get("env") or os.environ
        if options.keys() <= {"env", "input"} and command_server.can_run(environ):  # type: ignore[arg-type]
            return command_server.run(args, cwd, environ, options.get("input"))  # type: ignore[arg-type]
        command = [sys.executable, "-m", "slurmgen", *args]
        return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, **options)  # type: ignore[call-overload,no-any-return]

    return run
