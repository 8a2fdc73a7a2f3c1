"""A job with several nodes runs Python on the first node only.

## What it checks
Checks for a job with several nodes whose script starts Python, and starts nothing on the other nodes: it
contains no srun, mpirun, ssh, pdsh, ray or similar command.

## Why it matters
The batch script runs on the first node. The other nodes are idle but are charged to the account.

## Example
    #SBATCH --nodes=2
    python train.py

## Use instead
    #SBATCH --nodes=2
    srun python train.py

## When to ignore
If the Python program itself starts srun, mpirun or ssh. A command whose name is not known, such as
`$LAUNCH`, silences this rule.

## Reference
https://slurm.schedmd.com/srun.html
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.reader.launchers import RAY_ON_ALL_NODES, program_name
from slurmgen.lint.rules.common import runs_a_shell_script, words_of

CODE = "SG212"
SEVERITY = "warning"
SUMMARY = "Python runs on the first of several nodes only"

_DISTRIBUTES = (
    "srun",
    "mpirun",
    "mpiexec",
    "orterun",
    "ssh",
    "pdsh",
    "clush",
    "ray",
    "dask",
    "dask-scheduler",
    "parallel",
    "sbatch",
    "scontrol",
    "deepspeed",
    "horovodrun",
    "ibrun",
    "jsrun",
    "aprun",
    "blaze",
    "spark-submit",
)


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Report the first launch if nothing reaches the other nodes."""
    nodes = script.job.nodes
    if not nodes or nodes < 2 or script.shell.sourced or not script.launches:
        return
    if any(not command.name for command in script.commands):
        return  # such a command may be srun
    words = words_of(script)
    used = {
        program_name(word.text)
        for command in script.commands
        if "output" not in command.place
        for word in command.words
    }
    starts_ray = any(found.kind in ("ray", RAY_ON_ALL_NODES) for found in script.launches)
    launch = script.launches[0]
    if runs_a_shell_script(words):
        return
    distributes = set(_DISTRIBUTES) - ({"ray"} if starts_ray else set())
    if used.isdisjoint(distributes) and all(
        found.kind in ("python", "ray", RAY_ON_ALL_NODES) for found in script.launches
    ):
        yield Finding(
            launch.span,
            f"nothing runs on {nodes - 1} of the {nodes} nodes",
            "start it with `srun`, or request `--nodes=1`",
        )
