"""The guide's charts are those that their scripts draw from the committed measurements."""

import runpy

import pytest

from .running import REPOSITORY

FIGURES = REPOSITORY / "docs" / "guide" / "figures"


@pytest.mark.parametrize(("script", "name"), [("batch_size", "batch-size"), ("scaling", "scaling")])
def test_the_chart_is_what_the_script_draws(script: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FIGURES)
    assert (FIGURES / f"{name}.svg").read_text() == runpy.run_path(str(FIGURES / f"{script}.py"))["svg"]()
