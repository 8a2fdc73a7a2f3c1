"""benchmarks/gpu.sh measures everything in one run; here with tiny sizes, on CPUs."""

import importlib.util
import itertools
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.fork_server import warm
from tests.support.ranks import start

GPU = Path(__file__).parents[2] / "benchmarks" / "gpu.sh"
UNKNOWN = {"MFU, %", "blocking calls in an epoch"}  # only on a GPU


def test_gpu_sh_runs_everything_and_writes_the_figures(tmp_path: Path) -> None:
    run = start([([GPU, "--cpu", tmp_path], {"PYTHON": str(warm())})], None).ended()
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert {name: each["status"] for name, each in summary["runs"].items() if each["status"]} == {}, run.out
    assert all(each["figures"].keys() - UNKNOWN for each in summary["runs"].values())
    assert {name for name, value in summary["checks"].items() if value is None} == {
        "blocking calls in an epoch"
    }
    assert summary["runs"]["DDP, profiled"]["figures"]["recompiles after epoch 1"] == 0
    assert (tmp_path / "summary.md").read_text() in run.out
    assert len(list(tmp_path.glob("*.log"))) == len(summary["runs"])


def test_a_dry_run_omits_nothing_on_a_slow_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("gpu", GPU.with_suffix(".py"))
    assert spec
    assert spec.loader
    monkeypatch.setitem(sys.modules, "gpu", gpu := importlib.util.module_from_spec(spec))
    spec.loader.exec_module(gpu)
    hours = itertools.count(step=3600)
    gpu.time = SimpleNamespace(monotonic=lambda: next(hours))
    gpu.python = lambda *words: ""
    gpu.measure = lambda *asked: {"status": 0, "figures": {}}
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--cpu", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        gpu.main()
    assert not ended.value.code
