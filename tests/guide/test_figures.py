"""The guide's pictures and charts are those that their scripts draw."""

import runpy

import pytest

from .running import REPOSITORY

FIGURES = REPOSITORY / "docs" / "guide" / "figures"
PICTURES = runpy.run_path(str(FIGURES / "drawings.py"))["PICTURES"]
CHARTS = {"batch-size.svg": "batch_size", "scaling.svg": "scaling"}


@pytest.mark.parametrize("name", [*PICTURES, *CHARTS])
def test_the_figure_is_what_the_script_draws(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FIGURES)
    draw = PICTURES.get(name) or runpy.run_path(str(FIGURES / f"{CHARTS[name]}.py"))["svg"]
    assert (FIGURES / name).read_text() == draw()
