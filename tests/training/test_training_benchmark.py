"""benchmark.py and scaling.py measure training, and compare numbers of ranks."""

import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import scaling
from PIL import Image
from training_launch import Ranks, launched

SPEED = r"^mlp, (no|with) data loading: (\d+) images/s, (\d+) per rank, [\d.]+ GFLOP/s per rank$"
SIZE = r"^all-reduce +(\d+) KiB: +\d+ us, bus +[\d.]+ GB/s$"


def test_the_benchmark_reports_steps_and_all_reduce(ranks: Ranks) -> None:
    run = ranks.run("benchmark", ("--task", "mnist", "--batch-size", "4096", "--steps", "3"), launched(2))
    assert run.returncodes == [0, 0], run.err
    assert len(re.findall(r"^mlp, the first step: [\d.]+ s$", run.out, re.MULTILINE)) == 1
    steps = re.findall(SPEED, run.out, re.MULTILINE)
    assert [which for which, *_ in steps] == ["no", "with"]
    assert all(int(every) == pytest.approx(int(each) * 2, abs=2) for _, every, each in steps)
    sizes = re.findall(SIZE, run.out, re.MULTILINE)
    assert (sizes[0], sizes[-1]) == ("4", "65536")


def test_the_benchmark_writes_no_run(ranks: Ranks, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    flags = ("--task", "mnist", "--steps", "2", "--run-dir", str(folder))
    run = ranks.run("benchmark", flags, [{}])
    assert run.returncodes == [0], run.err
    assert not folder.exists()


def test_help_of_the_benchmark_ends_with_status_0(ranks: Ranks) -> None:
    run = ranks.run("benchmark", ["--help"], [{}])
    assert run.returncodes == [0]
    assert "--steps N" in run.out


def test_scaling_reads_the_metrics_of_a_run(ranks: Ranks, tmp_path: Path) -> None:
    flags = ("--task", "mnist", "--data", "synthetic", "--limit", "128", "--epochs", "2")
    run = ranks.run("train_ddp", (*flags, "--run-dir", str(tmp_path)), launched(2))
    assert run.returncodes == [0, 0], run.err
    last = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[-1])
    assert scaling.read(tmp_path) == scaling.Speed(2, last["images_per_second"])


def run_of(folder: Path, world_size: int, *speeds: float) -> str:
    folder.mkdir()
    lines = [json.dumps({"world_size": world_size, "images_per_second": speed}) for speed in speeds]
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    return str(folder)


def scaled(folder: Path, picture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Call scaling.py on runs of four ranks and of one. The first epoch selects kernels, and is excluded."""
    runs = [run_of(folder / "four", 4, 5, 360, 360), run_of(folder / "one", 1, 5, 100)]
    monkeypatch.setattr(sys, "argv", ["scaling.py", *runs, "--output", str(picture)])
    scaling.main()


def test_scaling_reports_and_plots_speed_up_and_efficiency(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "plot.png"
    scaled(tmp_path, picture, monkeypatch)
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["ranks", "images/s", "speed-up", "efficiency"],
        ["1", "100", "1.00", "100%"],
        ["4", "360", "3.60", "90%"],
        ["wrote", str(picture)],
    ]
    with Image.open(picture) as image:
        assert image.size == (560, 560)
        assert len(image.getcolors(100_000)) > 3


def test_scaling_plots_svg_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = tmp_path / "plot.svg"
    scaled(tmp_path, picture, monkeypatch)
    texts = [each.text for each in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text")]  # noqa: S314
    assert {"1", "4", "1.00", "3.60", "ranks", "speed-up; grey: the ideal"} == set(texts)


def test_scaling_rejects_a_folder_without_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["scaling.py", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"there is no .*metrics.jsonl. Train with --run-dir"):
        scaling.main()
