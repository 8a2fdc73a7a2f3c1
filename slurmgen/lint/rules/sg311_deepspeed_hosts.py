"""deepspeed runs on several nodes without a list of the nodes of this job.

## What it checks
Checks for deepspeed outside srun in a job with several nodes, without `--hostfile` or `--launcher slurm`, or
with a hostfile that the script does not write. A hostfile that it writes under a constant name is reported,
too: two jobs overwrite it. Under srun, `--num_nodes` without `--no_ssh` is reported.

## Why it matters
deepspeed reads the nodes from /job/hostfile by default. Without the file it starts ranks on the first node
only. A hostfile with fixed names belongs to one job: the next job gets other nodes.

## Example
    #SBATCH --nodes=2
    deepspeed train.py

## Use instead
    #SBATCH --nodes=2
    scontrol show hostnames "$SLURM_JOB_NODELIST" | sed 's/$/ slots=4/' > "hosts-$SLURM_JOB_ID"
    deepspeed --hostfile="hosts-$SLURM_JOB_ID" train.py

## When to ignore
If the hostfile is written elsewhere for each job.

## Reference
https://www.deepspeed.ai/getting-started/#resource-configuration-multi-node
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Script
from slurmgen.lint.rules.common import rank_launchers, several_nodes

CODE = "SG311"
SEVERITY = "warning"
SUMMARY = "deepspeed does not know the nodes of the job"


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check the source of the list of nodes."""
    yield from _shared_files(script)
    yield from _runners(script)
    if (script.job.nodes or 1) < 2:
        return
    for launch in rank_launchers(script):
        options = launch.options
        if launch.kind != "deepspeed" or launch.step or launch.under("ssh"):
            continue
        hostfile = options.text("hostfile")
        if options.lacks("hostfile", "launcher", "no-ssh"):
            yield Finding(
                launch.span, "deepspeed has no list of nodes, and uses the first node only", _ADVICE
            )
        elif hostfile and script.source.plain.count(hostfile) == 1:
            yield Finding(
                launch.span,
                f"the script does not write {hostfile!r}, but every job has its own nodes",
                _ADVICE,
            )


def _shared_files(script: Script) -> Iterator[Finding]:
    """The hostfiles that the script writes under a name that is the same in every job."""
    for launch in script.launches:
        hostfile = launch.options.text("hostfile") if launch.kind == "deepspeed" else None
        if hostfile and not hostfile.startswith(_OWN) and script.source.plain.count(hostfile) > 1:
            yield Finding(
                launch.options.given["hostfile"].word.span,
                f"every job of this script writes the same hostfile, {hostfile!r}",
                "put the job ID into its name: `hostfile-$SLURM_JOB_ID`",
            )


def _runners(script: Script) -> Iterator[Finding]:
    """The launches under srun of which each starts the ranks of all nodes."""
    for launch in script.launches:
        options = launch.options
        nodes = options.number("num-nodes") if launch.kind == "deepspeed" else None
        if (nodes or 1) > 1 and several_nodes(script, launch) and options.lacks("no-ssh", "node-rank"):
            yield Finding(
                launch.span,
                f"srun starts deepspeed on each node, and each one starts the ranks of {nodes} nodes",
                "start it once, without srun, or add `--no_ssh` and `--node_rank=$SLURM_NODEID`",
            )


_OWN = ("/dev/", "/tmp/", "/job/")  # noqa: S108
_ADVICE = 'write the hostfile from `scontrol show hostnames "$SLURM_JOB_NODELIST"`'
