"""On a real Slurm, the bad script of a rule has the documented problem and the fixed one does not."""

import re
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from slurmgen.lint import lint
from slurmgen.lint.rules.variables import SET_BY
from tests.support.twins import Testbed, twin

REFUSED = "REFUSED"


class Outcome(NamedTuple):
    """The final state of a job, and the content of its log."""

    state: str
    log: str = ""


class Case(NamedTuple):
    """A rule, a script with its fault, the same script without it, and the outcome of each."""

    code: str
    bad: str
    fixed: str
    bad_outcome: Outcome
    fixed_outcome: Outcome


def script(*lines: str, options: str = "--nodes=1") -> str:
    return "\n".join(["#!/bin/bash", f"#SBATCH --time=00:05:00 {options}", *lines]) + "\n"


def refused(code: str, bad: str, fixed: str) -> Case:
    return Case(code, bad, fixed, Outcome(REFUSED), Outcome("COMPLETED", "ran"))


RAN = script("echo ran")
TWO_NODES = "--nodes=2 --ntasks-per-node=1"
CASES = [
    refused("SG101", "#SBATCH --nodes=1\necho ran\n", RAN),
    refused("SG102", RAN.replace("\n", "\r\n"), RAN),
    refused(
        "SG104",
        script("#SBATCH --cpu-per-task=1", "echo ran"),
        script("#SBATCH --cpus-per-task=1", "echo ran"),
    ),
    refused("SG104", script("#SBATCH --ntask=1", "echo ran"), script("#SBATCH --ntasks=1", "echo ran")),
    refused(
        "SG105", script("#SBATCH --job-name my job", "echo ran"), script('#SBATCH -J "my job"', "echo ran")
    ),
    refused(
        "SG109",
        script("echo ran", options="--mem=9M --mem-per-cpu=9M"),
        script("echo ran", options="--mem=9M"),
    ),
    refused(
        "SG110",
        "#!/bin/bash\n#SBATCH --time=1h\necho ran\n",
        "#!/bin/bash\n#SBATCH --time=1:00:00\necho ran\n",
    ),
    Case(
        "SG110",
        "#!/bin/bash\n#SBATCH --time=24:00\nsqueue -h -j $SLURM_JOB_ID -o %l\n",
        "#!/bin/bash\n#SBATCH --time=24:00:00\nsqueue -h -j $SLURM_JOB_ID -o %l\n",
        Outcome("COMPLETED", "24:00"),
        Outcome("COMPLETED", "1-00:00:00"),
    ),
    Case(
        "SG103",
        script("true", "#SBATCH --ntasks=2", "srun echo task"),
        script("#SBATCH --ntasks=2", "true", "srun echo task"),
        Outcome("COMPLETED", "task"),
        Outcome("COMPLETED", "task task"),
    ),
    Case(
        "SG108",
        script("# SBATCH --ntasks=2", "srun echo task"),
        script("#SBATCH --ntasks=2", "srun echo task"),
        Outcome("COMPLETED", "task"),
        Outcome("COMPLETED", "task task"),
    ),
    Case(
        "SG112",
        script("#SBATCH --output=made-later/%j.log", "mkdir -p made-later", "echo ran"),
        script("#SBATCH --output=%j.log", "mkdir -p made-later", "echo ran"),
        Outcome("FAILED"),
        Outcome("COMPLETED", "ran"),
    ),
    Case(
        "SG107",
        script("#SBATCH --output=$HOME/%j.log", "echo ran"),
        script("#SBATCH --output=%j.log", "echo ran"),
        Outcome("FAILED"),
        Outcome("COMPLETED", "ran"),
    ),
    Case(
        "SG306",
        script('srun python3 -c "import sys; print(sys.argv[1])" $SLURM_PROCID', options=TWO_NODES),
        script(
            """srun bash -c 'python3 -c "import sys; print(sys.argv[1])" $SLURM_PROCID'""", options=TWO_NODES
        ),
        Outcome("COMPLETED", "0 0"),
        Outcome("COMPLETED", "0 1"),
    ),
    Case(
        "SG207",
        script("srun python3 show.py", options="--nodes=1 --ntasks-per-node=2 --gpus-per-task=1"),
        script("srun python3 show.py", options="--nodes=1 --ntasks-per-node=2 --gres=gpu:2"),
        Outcome("COMPLETED", "1 1"),
        Outcome("COMPLETED", "2 2"),
    ),
    Case(
        "SG506",
        script("srun python3 fails.py | cat"),
        script("set -o pipefail", "srun python3 fails.py | cat"),
        Outcome("COMPLETED"),
        Outcome("FAILED"),
    ),
    Case(
        "SG507",
        script("srun python3 -c 'import time; time.sleep(30); print(1)' &"),
        script("srun python3 -c 'import time; time.sleep(1); print(1)' &", "wait"),
        Outcome("COMPLETED"),
        Outcome("COMPLETED", "1"),
    ),
    Case(
        "SG508",
        script(
            'a=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))',
            "b=($a)",
            "echo ${#b[@]}",
            options=TWO_NODES,
        ),
        script('b=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))', "echo ${#b[@]}", options=TWO_NODES),
        Outcome("COMPLETED", "1"),
        Outcome("COMPLETED", "2"),
    ),
    Case(
        "SG509",
        script("set -e", "set +e", "cd nowhere", "srun python3 -c 'print(1)'"),
        script("set -e", "cd nowhere", "srun python3 -c 'print(1)'"),
        Outcome("COMPLETED", "1"),
        Outcome("FAILED"),
    ),
    Case(
        "SG505",
        script("""CMD="python3 count.py --name 'my run'" """, "srun $CMD"),
        script("""cmd=(python3 count.py --name 'my run')""", 'srun "${cmd[@]}"'),
        Outcome("COMPLETED", "3"),
        Outcome("COMPLETED", "2"),
    ),
]
TWO_STEPS = (
    "srun --ntasks=1 --exact python3 first.py &",
    "sleep 0.5",
    "srun --ntasks=1 --exact python3 second.py &",
    "wait",
)
CASES += [
    Case(
        "SG114",
        script("echo $SLURM_NNODES", options="--nodes=2 --ntasks=1"),
        script("echo $SLURM_NNODES", options="--nodes=2 --ntasks-per-node=1"),
        Outcome("COMPLETED", "1"),
        Outcome("COMPLETED", "2"),
    ),
    Case(
        "SG113",
        script("srun echo ran", options="--nodes=1 --gres=gpu:1 --gpus-per-node=2"),
        script("srun echo ran", options="--nodes=1 --gpus-per-node=2"),
        Outcome("FAILED"),
        Outcome("COMPLETED", "ran"),
    ),
    refused(
        "SG115", script("#SBATCH --partition=<your-partition>", "echo ran"), script("#SBATCH -N1", "echo ran")
    ),
    refused("SG106", "#!/bin/bash\n#SBATCH --time=\necho ran\n", RAN),
    refused("SG104", script("#SBATCH --ntasks_per_node=1", "echo ran"), script("#SBATCH -N1", "echo ran")),
    Case(
        "SG209",
        script("python3 count.py $SLURM_GPUS_PER_NODE", options="--nodes=1 --gres=gpu:1"),
        script("python3 count.py $SLURM_GPUS_ON_NODE", options="--nodes=1 --gres=gpu:1"),
        Outcome("COMPLETED", "0"),
        Outcome("COMPLETED", "1"),
    ),
    Case(
        "SG510",
        script("python3 count.py --a \\\n  # --b \\\n  --c"),
        script("python3 count.py --a \\\n  --c"),
        Outcome("FAILED", "1"),
        Outcome("COMPLETED", "2"),
    ),
    Case(
        "SG215",
        script(*TWO_STEPS, options="--nodes=1 --ntasks=2 --mem=64M"),
        script(
            *(line.replace("--exact", "--exact --mem=32M") for line in TWO_STEPS),
            options="--nodes=1 --ntasks=2 --mem=64M",
        ),
        Outcome("COMPLETED", "late"),
        Outcome("COMPLETED", "early"),
    ),
    Case(
        "SG511",
        script("srun python3 fails.py", "echo done"),
        script("set -e", "srun python3 fails.py", "echo done"),
        Outcome("COMPLETED", "done"),
        Outcome("FAILED"),
    ),
]
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


def outcome(testbed: Testbed, text: str) -> Outcome:
    """Submit a script unchanged, with a log next to it if it names none."""
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
        return Outcome(REFUSED)
    job = reply.stdout.strip()
    state = testbed.wait(job)
    log = testbed.folder / f"{job}.log"
    lines = log.read_text().splitlines() if log.exists() else []
    return Outcome(state, " ".join(sorted(line for line in lines if re.fullmatch(r"[\w:-]+", line))))


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
