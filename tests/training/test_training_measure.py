"""The options for speed work in each framework, and the measuring scripts report it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import scaling
from PIL import Image
from training_ranks import Ranks, launched

FRAMEWORKS = ("ddp", "lightning", "accelerate")
SCALARS = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1])
events.Reload()
print(json.dumps([[one.step, one.value] for one in events.Scalars("test_accuracy")]))
"""
TRAIN = ("--data", "digits", "--model", "cnn", "--batch-size", "100", "--epochs", "2", "--limit", "500")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_training_works_in_bf16_with_channels_last_and_static_graph(framework: str, ranks: Ranks) -> None:
    fast = ("--precision", "bf16", "--channels-last", "--static-graph", "--bucket-mb", "1")
    run = ranks(framework, "mnist", *TRAIN, *fast)
    assert run.returncodes == [0, 0], run.err
    assert run.done[0] >= 0.8


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_continued_run_in_fp16_keeps_its_loss_scaler(framework: str, ranks: Ranks, tmp_path: Path) -> None:
    flags = (*TRAIN, "--precision", "fp16")
    uncut = ranks(framework, "mnist", *flags)
    assert uncut.returncodes == [0, 0], uncut.err
    flags += ("--run-dir", str(tmp_path / "run"), "--check-every", "3")
    left = ranks(framework, "mnist", *flags, SLURM_JOB_END_TIME="1")
    assert left.returncodes == [75, 75], left.err
    again = ranks(framework, "mnist", *flags)
    assert again.ends == uncut.ends, again.err


def test_tensorboard_contains_the_metrics_of_each_epoch(ranks: Ranks, tmp_path: Path) -> None:
    run = ranks("ddp", "mnist", *TRAIN, "--tensorboard", "--run-dir", str(tmp_path))
    assert run.returncodes == [0, 0], run.err
    # In a separate process, since importing tensorboard prints warnings.
    asked = [sys.executable, "-W", "ignore", "-c", SCALARS, str(tmp_path / "tensorboard")]
    shown = json.loads(subprocess.run(asked, check=True, capture_output=True, timeout=120).stdout)
    written = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert shown == [[one["epoch"], pytest.approx(one["test_accuracy"])] for one in written]
    assert len(shown) == 2


def test_the_benchmark_reports_steps_and_all_reduce(ranks: Ranks) -> None:
    run = ranks.run("benchmark", ("mnist", "--batch-size", "100"), launched(2))
    assert run.returncodes == [0, 0], run.err
    steps = re.findall(r"^mlp, (no|with) data loading: (\d+) images/s, (\d+) a rank$", run.out, re.MULTILINE)
    assert [which for which, *_ in steps] == ["no", "with"]
    assert all(int(every) == pytest.approx(int(each) * 2, abs=2) for _, every, each in steps)
    sizes = re.findall(r"^all-reduce +(\d+) KiB: +\d+ us, bus +[\d.]+ GB/s$", run.out, re.MULTILINE)
    assert (sizes[0], sizes[-1]) == ("4", "65536")


def run_of(folder: Path, world_size: int, *speeds: float) -> str:
    folder.mkdir()
    lines = [json.dumps({"world_size": world_size, "images_per_second": speed}) for speed in speeds]
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    return str(folder)


def test_scaling_reports_and_plots_speed_up_and_efficiency(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first epoch, in which kernels are selected, is excluded."""
    runs = [run_of(tmp_path / "four", 4, 5, 360, 360), run_of(tmp_path / "one", 1, 5, 100)]
    picture = tmp_path / "plot.png"
    monkeypatch.setattr(sys, "argv", ["scaling.py", *runs, "--output", str(picture)])
    scaling.main()
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["ranks", "images/s", "speed-up", "efficiency"],
        ["1", "100", "1.00", "100%"],
        ["4", "360", "3.60", "90%"],
        ["wrote", str(picture)],
    ]
    with Image.open(picture) as image:
        assert image.size == (560, 560)
        assert len(image.getcolors(100_000)) > 3


def test_scaling_rejects_a_folder_without_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["scaling.py", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"there is no .*metrics.jsonl. Train with --run-dir"):
        scaling.main()
