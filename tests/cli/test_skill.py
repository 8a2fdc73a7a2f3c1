"""The instructions for coding agents in skills/slurmgen: they name every command, and their commands run."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from slurmgen.cli import COMMANDS
from slurmgen.files import bundled
from tests.conftest import Run

SKILL = bundled("skills") / "slurmgen" / "SKILL.md"
_, HEAD, BODY = SKILL.read_text(encoding="utf-8").split("---\n", 2)
BLOCKS = re.findall(r"^```bash\n(.*?)^```$", BODY, re.MULTILINE | re.DOTALL)
NOT_ALLOWED = ("--force", "--overwrite", "--prune", "--again", "--yes", "--unsafe-fixes", "cancel", "forget")


def test_its_head_has_what_agents_read() -> None:
    """As https://agentskills.io/specification requires."""
    head = yaml.safe_load(HEAD)
    assert head["name"] == SKILL.parent.name
    assert 0 < len(head["description"]) <= 1024
    assert len(head["compatibility"]) <= 500
    assert len(BODY.splitlines()) < 500


def test_it_says_what_each_command_changes() -> None:
    """If not: add the command to the table "What a command changes"."""
    table = BODY.partition("## What a command changes")[2].partition("##")[0]
    named = {words.split()[0] for words in re.findall(r"`([a-z][^`]*)`", table)}
    assert COMMANDS.keys() - named == set()


@pytest.mark.parametrize("word", NOT_ALLOWED)
def test_its_commands_destroy_nothing(word: str) -> None:
    assert BLOCKS
    assert not [line for block in BLOCKS for line in block.splitlines() if word in line.split()]
    assert word in BODY


@pytest.fixture
def environment(tmp_path: Path, slurmgen: Run) -> Iterator[dict[str, str]]:
    """The variables of a user with an empty home folder; a twin that a failed command leaves is stopped."""
    programs = str(Path(sys.executable).parent)
    home = tmp_path / "home"
    home.mkdir()
    yield os.environ | {"HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}"}
    slurmgen("twin", "down", "--all")


def test_its_commands_run_in_order_from_an_empty_folder(environment: dict[str, str], tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    printed = {}
    for block in BLOCKS:
        for script in re.findall(r"^cat.*?^END$|^slurmgen.*?$", block, re.MULTILINE | re.DOTALL):
            result = subprocess.run(
                ["bash", "-euc", script],
                cwd=project,
                env=environment,
                capture_output=True,
                text=True,
                timeout=600,
            )
            assert result.returncode == 0, (script, result.stderr)
            if "--json" in script:
                printed[script.partition(" --json")[0]] = json.loads(result.stdout)
    assert printed["slurmgen wait last --timeout 600"]["state"] == "COMPLETED"
    assert "result.txt" in printed["slurmgen fetch last"]["new"]
    assert printed["slurmgen twin down generic"] == {"stopped": ["generic"]}
