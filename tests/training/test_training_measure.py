"""The options for speed in each framework, and what TensorBoard and the profiler show."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from training_launch import Ranks

FRAMEWORKS = ("ddp", "lightning", "accelerate")
SCALARS = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1])
events.Reload()
print(json.dumps([[one.step, one.value] for one in events.Scalars("test_accuracy")]))
"""
TRAIN = ("--task", "mnist", "--data", "digits", "--model", "cnn", "--batch-size", "100", "--epochs", "2")
TRAIN += ("--limit", "500")
SHORT = ("--task", "mnist", "--data", "synthetic", "--batch-size", "20", "--epochs", "1")
SHARE = r"^profile: (computation|communication alone|waiting) ([\d.]+)% of 20 steps$"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_training_works_in_bf16_with_channels_last_and_static_graph(framework: str, ranks: Ranks) -> None:
    fast = ("--precision", "bf16", "--channels-last", "--static-graph", "--bucket-mb", "1")
    run = ranks(framework, *TRAIN, *fast)
    assert run.returncodes == [0, 0], run.err
    assert run.done[0] >= 0.8


@pytest.mark.parametrize("framework", ["ddp", "lightning"])
def test_a_continued_run_in_fp16_keeps_its_loss_scaler(framework: str, ranks: Ranks, tmp_path: Path) -> None:
    flags = (*TRAIN, "--precision", "fp16")
    uncut = ranks(framework, *flags)
    assert uncut.returncodes == [0, 0], uncut.err
    flags += ("--run-dir", str(tmp_path / "run"), "--check-every", "3")
    left = ranks(framework, *flags, SLURM_JOB_END_TIME="1")
    assert left.returncodes == [75, 75], left.err
    again = ranks(framework, *flags)
    assert again.ends == uncut.ends, again.err


def test_tensorboard_contains_the_metrics_of_each_epoch(ranks: Ranks, tmp_path: Path) -> None:
    run = ranks("ddp", *TRAIN, "--tensorboard", "--run-dir", str(tmp_path))
    assert run.returncodes == [0, 0], run.err
    # In a separate process, since importing tensorboard prints warnings.
    asked = [sys.executable, "-W", "ignore", "-c", SCALARS, str(tmp_path / "tensorboard")]
    shown = json.loads(subprocess.run(asked, check=True, capture_output=True, timeout=600).stdout)
    written = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert shown == [[one["epoch"], pytest.approx(one["test_accuracy"])] for one in written]
    assert len(shown) == 2


@pytest.mark.parametrize("framework", ["ddp", "fsdp", "lightning", "accelerate"])
def test_the_profile_shows_three_shares_and_writes_a_trace_of_each_rank(
    framework: str, ranks: Ranks, tmp_path: Path
) -> None:
    run = ranks(framework, *SHORT, "--limit", "600", "--profile", "--run-dir", str(tmp_path))
    assert run.returncodes == [0, 0], run.err
    shares = re.findall(SHARE, run.out, re.MULTILINE)
    assert [name for name, _ in shares] == ["computation", "communication alone", "waiting"]
    assert sum(float(share) for _, share in shares) == pytest.approx(100, abs=0.2)
    for rank in (0, 1):
        assert json.loads((tmp_path / f"trace-{rank}.json").read_text())["traceEvents"]


def test_the_profile_of_a_shorter_run_says_that_there_is_none(ranks: Ranks) -> None:
    run = ranks("ddp", *SHORT, "--limit", "100", "--profile")
    assert run.returncodes == [0, 0], run.err
    assert "profile: none, since the run had fewer than 9 steps\n" in run.out
    assert "profile: computation" not in run.out
