"""Fixes bring no new finding, and their patches apply, on every script that the linter is tested on."""

import re
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from slurmgen.lint import Edit, Report, engine, fix, lint_text
from slurmgen.lint.engine import patch
from slurmgen.lint.reader import Span
from tests.lint import corpus

SCRIPTS = sorted(Path(corpus.HERE).rglob("*.sbatch"))


def codes(reports: Iterable[Report]) -> "Counter[str]":
    return Counter(report.rule.code for report in reports)


@pytest.mark.parametrize("unsafe", [False, True])
def test_a_fix_brings_no_finding(unsafe: bool) -> None:
    for path in SCRIPTS:
        text = path.read_bytes().decode()
        after = lint_text(fix(text, unsafe=unsafe).text)
        assert codes(after) <= codes(lint_text(text)), path


def test_a_safe_fix_changes_only_scripts_that_sbatch_rejects_or_the_first_line_of_scontrol() -> None:
    rules = {report.rule.code for path in SCRIPTS for report in fix(path.read_bytes().decode()).applied}
    assert rules == {"SG101", "SG102", "SG104", "SG117", "SG309"}


@pytest.mark.parametrize("ports", [("29500", "29600"), ("45000", "39877"), ("45000", "29600")])
def test_two_ports_of_a_script_stay_different(ports: tuple[str, str]) -> None:
    launch = 'srun torchrun --nnodes=2 --rdzv-id=$SLURM_JOB_ID --rdzv-endpoint="$A:${PORT}" train.py\n'
    lines = "".join(
        f"{name}={port}\n{launch.replace('PORT', name)}"
        for name, port in zip(("FIRST_PORT", "SECOND_PORT"), ports, strict=True)
    )
    text = f"#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --gres=gpu:1\n{lines}"
    after = fix(text, unsafe=True).text
    first, second = re.findall(r"^\w+_PORT=(.*)$", after, re.MULTILINE)
    assert first == "$((20000 + SLURM_JOB_ID % 12768))"
    assert second == "$((20000 + (SLURM_JOB_ID + 4000) % 12768))"


def test_git_applies_the_patches_of_all_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    patches = []
    for number, path in enumerate(SCRIPTS):
        text = path.read_bytes().decode()
        name = f"job {number}.sbatch"
        Path(name).write_bytes(text.encode())
        patches.append(patch(name, text, fix(text, unsafe=True).text))
    assert sum(map(bool, patches)) > 30
    subprocess.run(["git", "apply", "--check"], input="".join(patches).encode(), check=True)


def test_a_fix_moves_and_deletes_no_directive() -> None:
    text = (
        "#!/bin/bash\n#SBATCH --partition=\n#SBATCH --time=01:00:00\nmodule load a\n#SBATCH --nodes=2\nls\n"
    )
    assert fix(text, unsafe=True).text == text


def test_a_fix_that_would_bring_a_finding_is_not_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "#!/bin/bash\n#SBATCH --time=24:00\nhostname\n"
    (report,) = lint_text(text)
    harmful = report._replace(
        finding=report.finding._replace(edits=(Edit(Span(0, 2), ""), *report.finding.edits))
    )
    linted = engine.lint_text
    monkeypatch.setattr(
        engine, "lint_text", lambda script, *others: (harmful,) if script == text else linted(script, *others)
    )
    assert fix(text, unsafe=True)[:2] == (text, ())


@pytest.mark.parametrize(
    ("written", "right"),
    [
        ("cpu-per-task", "cpus-per-task"),
        ("tme", "time"),
        ("gpus-per-tasks", "gpus-per-task"),
        ("ntask-per-node", "ntasks-per-node"),
    ],
)
def test_a_misspelt_option_becomes_the_closest_real_one(written: str, right: str) -> None:
    text = f"#!/bin/bash\n#SBATCH --{written}=8\npython train.py\n"
    assert fix(text, codes=["SG104"]).text == text.replace(written, right)


LAUNCH = 'srun torchrun --nproc-per-node=2 --master-port="$PORT" train.py\n'
TOP = "#!/bin/bash\n#SBATCH"
GPUS = f"{TOP} --nodes=1 --gpus-per-node=2 --cpus-per-task=8\n"
INSIDE = "PORT=$((20000 + SLURM_JOB_ID % 99))"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("\ufeff" + GPUS, GPUS),
        ("\ufeff#SBATCH -N1\n", "#!/bin/bash\n#SBATCH -N1\n"),
        (f"{TOP} -constraint=gpu\n", f"{TOP} --constraint=gpu\n"),
        (f"{TOP} -N=1\n", f"{TOP} -N 1\n"),
    ],
    ids=["mark", "mark without shebang", "one dash", "short with equals sign"],
)
def test_a_safe_fix_repairs_what_sbatch_rejects(before: str, after: str) -> None:
    assert fix(before).text == after


@pytest.mark.parametrize(
    "text",
    [
        GPUS.encode("utf-16").decode("utf-8", "surrogateescape"),
        GPUS.encode("utf-16-be").decode("utf-8", "surrogateescape"),
        f"{GPUS}while :; do PORT=$((10000 + RANDOM % 30000)); nc -z 127.0.0.1 $PORT || break; done\n{LAUNCH}",
        f"{GPUS}until ! ss -ltn | grep -q $PORT; do PORT=$(shuf -i 2000-65000 -n 1); done\n{LAUNCH}",
        f"{GPUS}for PORT in 29500 29501; do {LAUNCH}done\n",
        f'{GPUS}if [ -z "$SLURM_JOB_ID" ]; then PORT=45000; else {INSIDE}; fi\n{LAUNCH}',
        f"{GPUS}{INSIDE}\n[[ -n $SLURM_JOB_ID ]] || PORT=45000\n{LAUNCH}",
    ],
    ids=["utf-16", "utf-16 without mark", "while", "until", "for", "branch without job", "or without job"],
)
def test_no_fix_changes_an_encoding_a_loop_or_a_branch_outside_a_job(text: str) -> None:
    after = fix(text, codes=["SG101", "SG301", "SG302"], unsafe=True)
    assert after.text == text


def test_a_fix_for_cpus_needs_a_number_of_cpus() -> None:
    text = fix(f"{TOP} -constraint=gpu\nsrun python t.py\n", unsafe=True).text
    assert "SLURM_CPUS_PER_TASK" not in text
