"""The log and the file that the check of the nodes leaves."""

import json
import sys
from pathlib import Path

import pytest

from tests.preflight.checks import PROGRAM

sys.path.insert(0, PROGRAM)
import verdict  # type: ignore[import-not-found]

sys.path.remove(PROGRAM)


def test_nodes_that_were_not_checked_are_not_called_healthy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, fault = tmp_path / "verdict.json", (0, "port", "3 of 5 nodes cannot connect")
    assert verdict.finish(["n1", "n2", "n3"], [fault], {1: "no GPU"}, file) == 79
    shown = capsys.readouterr().out.splitlines()
    assert shown[1:3] == ["preflight: n2: healthy: no GPU", "preflight: n3: not checked"]
    assert "n1: 3 of 5 nodes cannot connect. Not checked: 1 node. " in shown[3]
    assert [node["healthy"] for node in json.loads(file.read_text())["nodes"]] == [False, True, None]
