"""docs/guide/scaling.md: the report, Amdahl's law and the measurements."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

from .pages import shown_output
from .running import GUIDE, REPOSITORY, run, torchrun

SCRIPT = runpy.run_path(str(GUIDE / "scaling.py"))
PAGE = (REPOSITORY / "docs" / "guide" / "scaling.md").read_text()


def test_the_page_shows_the_table_of_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    """The last of the three measured rounds."""
    measured = (REPOSITORY / "docs" / "guide" / "figures" / "scaling.jsonl").read_text().splitlines()[-6:]
    SCRIPT["report"]([json.loads(line) for line in measured], "strong")
    command = "torchrun --standalone --nproc-per-node=4 examples/guide/scaling.py strong results.jsonl"
    assert capsys.readouterr().out == shown_output("scaling", command)


def test_the_page_shows_the_table_of_the_bundled_script(tmp_path: Path) -> None:
    runs = REPOSITORY / "docs" / "guide" / "figures" / "scaling-runs"
    for name in ("digits-1", "digits-2"):
        (tmp_path / name).symlink_to(runs / name)
    words = ["digits-1", "digits-2", "-o", "digits.png"]
    completed = run(sys.executable, REPOSITORY / "training" / "scaling.py", *words, cwd=tmp_path)
    assert completed.out == shown_output("scaling", f"python training/scaling.py {' '.join(words)}")


def test_the_page_shows_amdahls_law() -> None:
    for percent, serial in (("1 %", 0.01), ("5 %", 0.05)):
        gains = [f"{SCRIPT['amdahl'](ranks, serial):.1f}" for ranks in (2, 4, 8, 16, 64)]
        assert f"| {percent} | {' | '.join(gains)} | {1 / serial:g} |" in PAGE


def test_the_serial_share_is_the_inverse_of_amdahls_law() -> None:
    assert SCRIPT["serial_share"](8, SCRIPT["amdahl"](8, 0.05)) == pytest.approx(0.05)


@pytest.mark.parametrize(("kind", "batches"), [("strong", [256, 256]), ("weak", [256, 512])])
def test_the_script_compares_runs_on_one_and_two_ranks(kind: str, batches: list[int], tmp_path: Path) -> None:
    for ranks in (1, 2):
        completed = torchrun("scaling.py", kind, str(tmp_path / "results.jsonl"), ranks=ranks)
        assert completed.returncode == 0, completed.err
    found = re.findall(r"^ +(\d)  +(\d+)  +\d+ ", completed.out, re.M)
    assert found == [(str(ranks), str(batch)) for ranks, batch in zip((1, 2), batches, strict=True)]


def test_a_first_run_on_two_ranks_is_refused() -> None:
    run = {"kind": "strong", "ranks": 2, "global_batch": 256, "samples_per_second": 1}
    with pytest.raises(SystemExit, match="the first run must be on one rank"):
        SCRIPT["report"]([run], "strong")
