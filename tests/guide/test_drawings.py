"""The guide's pictures are those that their script draws."""

import runpy

import pytest

from .running import REPOSITORY

FIGURES = REPOSITORY / "docs" / "guide" / "figures"
PICTURES = runpy.run_path(str(FIGURES / "drawings.py"))["PICTURES"]


@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_is_what_the_script_draws(name: str) -> None:
    assert (FIGURES / name).read_text() == PICTURES[name]()
