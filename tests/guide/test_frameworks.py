"""One training in three frameworks, and the line counts of docs/guide/frameworks.md."""

import ast
import re
from pathlib import Path

import pytest
import torch

from tests.support.ranks import Ended

from .running import GUIDE, REPOSITORY, python, torchrun

SCRIPTS = {
    "single GPU": "single_gpu_to_ddp_before.py",
    "plain DDP": "single_gpu_to_ddp.py",
    "Accelerate": "frameworks_accelerate.py",
    "Lightning": "frameworks_lightning.py",
}
START = {"single GPU": python, "plain DDP": torchrun, "Accelerate": torchrun, "Lightning": python}


def lines_of_code(script: str) -> int:
    """The lines with code, in a form that does not depend on comments and wrapping."""
    tree = ast.parse((GUIDE / script).read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            del node.body[0]
    return len([line for line in ast.unparse(tree).splitlines() if line.strip()])


@pytest.mark.parametrize("framework", SCRIPTS)
def test_the_page_states_the_lines_of_code(framework: str) -> None:
    page = (REPOSITORY / "docs" / "guide" / "frameworks.md").read_text()
    (row,) = re.findall(rf"^\| {framework} \| \[?`{SCRIPTS[framework]}`.* \| (\d+) \|", page, re.M)
    assert int(row) == lines_of_code(SCRIPTS[framework])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Ended, Path]]:
    folders = {name: tmp_path_factory.mktemp(name) for name in START}
    return {name: (START[name](SCRIPTS[name], cwd=folders[name]), folders[name]) for name in START}


def accuracies(out: str) -> list[tuple[str, str]]:
    return re.findall(r"^epoch (\d): accuracy (\S+)$", out, re.M)


def test_lightning_computes_what_the_page_shows_and_plain_ddp_too(
    trained: dict[str, tuple[Ended, Path]],
) -> None:
    page = (REPOSITORY / "docs" / "guide" / "frameworks.md").read_text()
    rows = re.findall(r"^\| epoch (\d) \| (\S+) \| (\S+) \|", page, re.M)
    for name, shown in zip(
        ("plain DDP", "Lightning"), zip(*(row[1:] for row in rows), strict=True), strict=True
    ):
        done, _ = trained[name]
        assert [epoch for epoch, _ in accuracies(done.out)] == [epoch for epoch, *_ in rows], done.err
        # Another processor rounds differently.
        found = [float(accuracy) for _, accuracy in accuracies(done.out)]
        assert found == pytest.approx([float(accuracy) for accuracy in shown], abs=0.02)


@pytest.mark.parametrize("name", START)
def test_the_framework_prints_once_and_learns_as_well(
    name: str, trained: dict[str, tuple[Ended, Path]]
) -> None:
    done, _ = trained[name]
    assert done.returncode == 0, done.err
    found = accuracies(done.out)
    assert [epoch for epoch, _ in found] == ["0", "1", "2", "3", "4"]
    assert float(found[-1][1]) > 0.95


@pytest.mark.parametrize("name", START)
def test_the_framework_saves_the_names_of_the_single_gpu_script(
    name: str, trained: dict[str, tuple[Ended, Path]]
) -> None:
    saved = torch.load(trained[name][1] / "model.pt", weights_only=True)
    assert list(saved) == ["0.weight", "0.bias", "2.weight", "2.bias"]
