"""On a real Slurm, the bad script of a rule has the documented problem and the fixed one does not."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from slurmgen.lint import lint
from slurmgen.lint.rules.variables import SET_BY
from tests.support.examples import examples
from tests.support.twins import Testbed, twin

REFUSED = "REFUSED"


class Case(NamedTuple):
    """A rule, a script with its fault and the same script without it; each with its state and its log."""

    code: str
    bad: str
    bad_outcome: str
    fixed: str
    fixed_outcome: str


JOBS = examples(Path(__file__).with_name("real_jobs.txt"))
CASES = [
    Case(bad.name, bad.text, bad.expected, fixed.text, fixed.expected)
    for bad, fixed in zip(JOBS[::2], JOBS[1::2], strict=True)
]
RAN = "#!/bin/bash\n#SBATCH --time=00:05:00 --nodes=1\necho ran\n"
CASES.append(Case("SG102", RAN.replace("\n", "\r\n"), REFUSED, RAN, "COMPLETED ran"))
PROGRAMS = {
    "show.py": "import os\nprint(len(os.environ['CUDA_VISIBLE_DEVICES'].split(',')))\n",
    "fails.py": "raise SystemExit(1)\n",
    "first.py": "import os, time\ntime.sleep(5)\nopen(os.environ['SLURM_JOB_ID'], 'w')\n",
    "second.py": "import os\nprint('late' if os.path.exists(os.environ['SLURM_JOB_ID']) else 'early')\n",
    "count.py": "import sys\nprint(len(sys.argv[1:]))\n",
}


@pytest.fixture(scope="module")
def testbed() -> Iterator[Testbed]:
    with twin("daic", nodes=2) as started:
        for name, text in PROGRAMS.items():
            (started.folder / name).write_text(text)
        yield started


def outcome(testbed: Testbed, text: str) -> str:
    """The state and the log of a script, submitted unchanged, with a log next to it if it names none."""
    job_file = testbed.folder / "job.sh"
    job_file.write_bytes(text.encode())
    log_option = [] if "--output" in text else ["--output=%j.log"]
    reply = subprocess.run(
        ["sbatch", "--parsable", *log_option, "job.sh"],
        env=testbed.environ,
        cwd=testbed.folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if reply.returncode:
        return REFUSED
    job = reply.stdout.strip()
    state = testbed.wait(job)
    log = testbed.folder / f"{job}.log"
    lines = log.read_text().splitlines() if log.exists() else []
    return " ".join([state, *sorted(line for line in lines if re.fullmatch(r"[\w:-]+", line))])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_the_fault_has_the_documented_effect(case: Case, testbed: Testbed) -> None:
    assert case.code in {report.rule.code for report in lint(case.bad)}
    assert case.code not in {report.rule.code for report in lint(case.fixed)}
    assert outcome(testbed, case.bad) == case.bad_outcome
    assert outcome(testbed, case.fixed) == case.fixed_outcome


HEADERS = [
    "--nodes=2",
    "--ntasks=2",
    "--nodes=2 --ntasks-per-node=2",
    "--nodes=2 --tasks-per-node=2",
    "--nodes=1 --gres=gpu:2",
    "--nodes=1 --gpus-per-node=2",
    "--nodes=1 --gpus=2",
    "--ntasks=2 --gpus-per-task=1",
    "--nodes=1 --cpus-per-task=2",
]


@pytest.mark.parametrize("options", HEADERS)
def test_slurm_sets_the_variables_that_the_linter_expects(options: str, testbed: Testbed) -> None:
    log = testbed.batch(f"#!/bin/bash\n#SBATCH {options}\nenv\n")
    given = {option.partition("=")[0].removeprefix("--") for option in options.split()}
    expected = {name for name, options_ in SET_BY.items() if given & set(options_)}
    assert {line.partition("=")[0] for line in log.splitlines()} & SET_BY.keys() == expected


def test_at_least_ten_rules_are_covered() -> None:
    assert len({case.code for case in CASES}) >= 10
