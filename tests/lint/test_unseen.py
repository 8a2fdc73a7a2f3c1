"""Forms that scripts of other people have: what the linter reports of each, and what it must not report.

Each case is a reduced public script or report.
"""

from typing import NamedTuple

import pytest

from slurmgen.lint import lint_text


class Case(NamedTuple):
    """A script, the codes that it must have, and those that it must not have."""

    name: str
    header: str
    body: str
    has: str = ""
    lacks: str = ""


ONE_NODE = "--nodes=1 --gpus-per-node=4 --ntasks-per-node=1 --cpus-per-task=32"
TWO_NODES = "--nodes=2 --gpus-per-node=4 --ntasks-per-node=1 --cpus-per-task=32"
TRAIN = 'bash -c "torchrun --nproc-per-node=4 train.py"'
CONTAINER = "apptainer exec --nv i.sif"
EXTENDED = 'S="srun --mpi=pmix"\nif [ -n "$M" ]; then S="$S --container-mounts=$M"; fi\n'
DYNAMIC = "--nnodes 2 --nproc_per_node 4 --rdzv_backend c10d --rdzv_id $SLURM_JOB_ID --rdzv_endpoint $A:$P"

FALSE_BEFORE = [
    Case(
        "a command in a variable is not nothing",
        TWO_NODES,
        f"{EXTENDED}python p.py\n$S {TRAIN}",
        "SG204",
        "SG212",
    ),
    Case("an unknown command may be srun", TWO_NODES, "python p.py\n$LAUNCH python train.py", lacks="SG212"),
    Case(
        "Python in a command substitution starts no rank",
        ONE_NODE,
        f"eval \"$(apptainer exec i.sif python3 -c 'print(1)')\"\nsrun -c 32 {CONTAINER} python t.py",
        lacks="SG503",
    ),
    Case(
        "torchrun ignores a node rank with a dynamic rendezvous, also in a variable",
        TWO_NODES,
        f"N=$SLURM_NODEID\nsrun -c 32 torchrun {DYNAMIC} --node_rank $N train.py",
        lacks="SG306",
    ),
    Case(
        "one GPU per task is right for AMD GPUs",
        "--nodes=4",
        "module load rocm\nsrun -N4 -n32 -c7 --gpus-per-task=1 --gpu-bind=closest python train.py",
        lacks="SG207",
    ),
    Case(
        "the default of a variable that Slurm sets is not used",
        "--nodes=1",
        'cd "${SLURM_SUBMIT_DIR:-$(dirname "$0")}"\nhostname',
        lacks="SG517",
    ),
    Case(
        "a GPU is kept for another program",
        "--nodes=2 --gpus-per-node=4 --ntasks-per-node=1 --exclusive",
        "T=$((SLURM_NNODES * 4 - 1))\nsrun accelerate launch --num_processes $T --num_machines 2 train.py",
        lacks="SG203",
    ),
    Case(
        "the size comes from the command line",
        "--ntasks-per-node=1",
        "srun torchrun --nproc-per-node=$SLURM_GPUS_PER_NODE train.py",
        lacks="SG209",
    ),
    Case(
        "another scheduler is the only finding",
        "",
        "#PBS -l select=2\nmpirun -n 8 python train.py\necho done",
        "SG119",
        "SG511 SG212 SG107",
    ),
    Case("bash cannot parse it", ONE_NODE, "if true; then\nsrun python t.py", "SG518", "SG401 SG402"),
]
EIGHT = "--nodes=1 --gpus-per-node=4 --cpus-per-task=8"
LAUNCH = "srun -c 8 torchrun --standalone --nproc-per-node=4 train.py"
MISSED_BEFORE = [
    Case("tasks from --ntasks-per-gpu", f"{EIGHT} --ntasks-per-gpu=1", LAUNCH, "SG201"),
    Case(
        "GPUs of --tres-per-task",
        "--ntasks=4 -N1 --tres-per-task=cpu:8,gres/gpu:1",
        "srun python t.py",
        "SG207",
    ),
    Case(
        "a total counts more than --ntasks-per-node",
        f"{EIGHT} --ntasks=1 --ntasks-per-node=2",
        LAUNCH,
        "",
        "SG201",
    ),
    Case("the alias --tasks-per-node", "-N1 --tasks-per-node=1 --gpus-per-node=4", f"srun {TRAIN}", "SG402"),
    Case(
        "the first words of an array that a branch extends",
        TWO_NODES,
        'C=(srun torchrun --nproc-per-node=4 t.py)\nif [ -n "$R" ]; then C+=(--resume "$R"); fi\n"${C[@]}"',
        "SG401 SG204",
    ),
    Case(
        "a secret as a default",
        "--nodes=1",
        'export WANDB_API_KEY="${WANDB_API_KEY:-3f9a0c7be1d24586a7f0b19c5d}"\nhostname',
        "SG514",
    ),
]
CASES = FALSE_BEFORE + MISSED_BEFORE


def codes(case: Case) -> set[str]:
    header = f"#SBATCH {case.header} --output=%j.out\n" if case.header else ""
    return {report.rule.code for report in lint_text(f"#!/bin/bash\n{header}{case.body}\n")}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_foreign_script_gets_the_findings_that_are_right(case: Case) -> None:
    found = codes(case)
    assert set(case.has.split()) <= found
    assert not set(case.lacks.split()) & found
