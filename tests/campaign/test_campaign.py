"""A few trials of the campaign, two at a time; each can be repeated by its number."""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.campaign.__main__ import Planned, plan
from tests.campaign.commands import COMMANDS
from tests.campaign.faults import FAULTS

SEED, EACH = 1, 1


def few() -> list[Planned]:
    """Each fault, with the commands that were chosen least often."""
    chosen, trials, used = list[Planned](), plan(1000, SEED), Counter[str]()
    for fault in FAULTS * EACH:
        left = [one for one in trials if one.fault is fault and one not in chosen]
        chosen.append(min(left, key=lambda one: used[one.command]))
        used[chosen[-1].command] += 1
    return chosen


def test_no_command_is_wrong_in_a_few_trials() -> None:
    chosen = few()
    assert {one.command for one in chosen} == set(COMMANDS)
    reply = made([one.number for one in chosen])
    # A machine that is too busy for the trial itself, such as its job, says nothing of the command.
    if broken := re.findall(r"^trial ([0-9]+): harness failed", reply, re.MULTILINE):
        reply += made(broken)
    assert (
        re.findall(r"^trial [0-9]+: (?!right|does not know|harness failed).*", reply, re.MULTILINE) == []
    ), reply
    assert "harness failed" not in reply.rpartition(" trials: ")[2], reply


def made(numbers: Iterable[int | str]) -> str:
    """What the campaign prints of some trials."""
    words = [f"--only={number}" for number in numbers]
    argv = [sys.executable, "-m", "tests.campaign", f"--seed={SEED}", "--jobs=2", *words]
    root = Path(__file__).parents[2]
    reply = subprocess.run(argv, cwd=root, capture_output=True, text=True, timeout=1500, check=False)
    assert f"\n{len(words)} trials: " in reply.stdout, reply.stderr
    return reply.stdout
