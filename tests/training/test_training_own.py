"""Someone's own model and Dataset in the bundled scripts, with few changed lines."""

import difflib
import shutil
from pathlib import Path

import pytest
from training_launch import TRAINING, Ranks

OWN = '''
import torch
from torch import nn
from torch.utils.data import Dataset


class Points(Dataset):
    """Points of float coordinates, labelled by their quadrant."""

    def __init__(self, samples):
        self.points = torch.randn(samples, 2, generator=torch.Generator().manual_seed(samples))

    def __len__(self):
        return len(self.points)

    def __getitem__(self, index):
        point = self.points[index]
        return point, int(point[0] > 0) + 2 * int(point[1] > 0)


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 4))
'''
EDITS = {
    "load(options, ranks)": "Points(2000), None, Points(301)",
    "build_model(options, ranks.device)": "make_model().to(ranks.device)",
    "from images import load": "from own import Points, make_model",
}


@pytest.mark.parametrize("framework", ["ddp", "fsdp", "lightning", "accelerate"])
def test_ones_own_model_and_data_need_at_most_ten_changed_lines(
    framework: str, ranks: Ranks, tmp_path: Path
) -> None:
    folder = tmp_path / "copied"
    shutil.copytree(TRAINING, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "own.py").write_text(OWN)
    script = folder / f"train_{framework}.py"
    before = text = script.read_text()
    for old, new in EDITS.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    script.write_text(text)
    changes = [
        line for line in difflib.ndiff(before.splitlines(), text.splitlines()) if line.startswith("+ ")
    ]
    assert len(changes) <= 10
    flags = ("--task", "mnist", "--epochs", "4", "--lr", "0.01", "--workers", "1", "--batch-size", "40")
    run = ranks(framework, *flags, folder=folder)
    assert run.returncodes == [0, 0], run.err
    assert run.done[0] > 0.9
    assert run.done[1] == 301
