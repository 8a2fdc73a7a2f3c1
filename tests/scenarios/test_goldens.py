"""Slurm itself accepts every golden script, on the twin of its site."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scenarios.conftest import Site

GOLDEN = sorted((Path(__file__).parent.parent / "golden").glob("*.sbatch"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_sbatch_would_take_the_golden_script(path: Path, site: Callable[[str], Site]) -> None:
    place = site(path.name.partition(".")[0])
    place.testbed.run("sbatch", "--test-only", str(path))
