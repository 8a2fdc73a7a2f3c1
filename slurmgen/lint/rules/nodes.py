"""Launches that do not use the nodes of the job as intended."""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, rule
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.reader.launchers import RAY_ON_ALL_NODES, program_name
from slurmgen.lint.rules.common import (
    FRAMEWORKS,
    NODE_OPTIONS,
    nodes_of,
    procs_of,
    rank_launchers,
    replace_value,
    runs_a_shell_script,
    several_nodes,
    words_of,
)
from slurmgen.text import counted


@rule("SG204", "error")
def nodes_disagree(script: Script) -> Iterator[Finding]:
    """The launcher is configured for a different number of nodes than it runs on.

    ## What it checks
    Compares `--nnodes` (torchrun) or `--num_machines` (accelerate) with the number of nodes of the step. Both
    default to 1. Launches in the background, in a loop, or on named nodes are not checked: several steps may
    form one group.

    ## Why it matters
    If the number is too large, the launcher waits for nodes that never join, until it times out. If it is too
    small, each node trains on its own or is rejected.

    ## Example
        #SBATCH --nodes=2
        srun torchrun --nnodes=4 ... train.py

    ## Use instead
        #SBATCH --nodes=2
        srun torchrun --nnodes=2 ... train.py

    `--nnodes="$SLURM_JOB_NUM_NODES"` always matches the header.

    ## When to ignore
    If the launch is elastic, and other steps or jobs join it.

    ## Reference
    https://docs.pytorch.org/docs/stable/elastic/run.html
    """
    for launch in script.launches:
        name = NODE_OPTIONS.get(launch.kind)
        if name is None or launch.step is None or "standalone" in launch.options.given or _is_part(launch):
            continue
        shape, configured = script.step(launch), nodes_of(launch)
        if shape.nodes and shape.ntasks_per_node == 1 and configured and configured != shape.nodes:
            yield Finding(
                launch.span,
                f"{launch.kind} is configured for {counted(configured, 'node')}, but runs on {shape.nodes}",
                f"write `--{name.replace('-', '_')}={shape.nodes}`",
                replace_value(script, launch.options.given.get(name), str(shape.nodes)),
            )


def _is_part(launch: Launch) -> bool:
    """Whether other steps may run the same program on the other nodes."""
    options = launch.step.options.given if launch.step else {}
    return launch.may_run_beside_others or bool({"nodelist", "relative"} & options.keys())


@rule("SG205", "error")
def several_nodes_without_srun(script: Script) -> Iterator[Finding]:
    """A job with several nodes starts its launcher on the first node only.

    ## What it checks
    Checks for torchrun, accelerate or `ray symmetric-run` without srun or mpirun in a job with several nodes.
    deepspeed is not reported: it starts its ranks on the other nodes over SSH. Beside other launches, one
    that is explicitly configured for one node is not reported either, nor any launch in a script with `ssh`
    in a loop, which probably runs over the other nodes.

    ## Why it matters
    The batch script runs on the first node only. The launcher waits there for the other nodes until it times
    out, or trains alone while they are idle.

    ## Example
        #SBATCH --nodes=2
        torchrun --nnodes=2 ... train.py

    ## Use instead
        #SBATCH --nodes=2
        srun torchrun --nnodes=2 ... train.py

    ## When to ignore
    If the program starts its ranks on the other nodes itself.

    ## Reference
    https://slurm.schedmd.com/srun.html
    """
    nodes = script.job.nodes or 1
    for launch in rank_launchers(script, *FRAMEWORKS.keys() - {"deepspeed"}, RAY_ON_ALL_NODES):
        is_direct = launch.is_direct and launch.under("ssh") is None
        if nodes > 1 and is_direct and not _is_meant(script, launch):
            yield Finding(
                launch.span,
                f"{launch.kind} runs on only the first of {nodes} nodes",
                "start it with `srun` and one task per node",
            )


def _is_meant(script: Script, launch: Launch) -> bool:
    """Whether other launches run on the other nodes: over SSH, or if it is explicitly of one node."""
    if any(command.name == "ssh" and "loop" in command.place for command in script.commands):
        return True
    numbers = (launch.options.number(name) for name in ("nnodes", "num-machines"))
    return len(script.launches) > 1 and (1 in numbers or "standalone" in launch.options.given)


@rule("SG206", "note")
def ranks_without_srun(script: Script) -> Iterator[Finding]:
    """A launcher starts several ranks in the batch script, without srun.

    ## What it checks
    Checks for torchrun, accelerate or deepspeed with several ranks and without srun or mpirun in a job with
    one node.

    ## Why it matters
    Training works, but outside any job step. Accounting shows no separate step for the training, and CPU
    binding does not apply. This is common on one node, so the rule is opt-in. SG608 reports a `--signal` that
    does not reach the ranks.

    ## Example
        torchrun --standalone --nproc-per-node=4 train.py

    ## Use instead
        srun torchrun --standalone --nproc-per-node=4 train.py

    ## When to ignore
    If accounting and binding of the training do not matter, as in most jobs on one node.

    ## Reference
    Lightning-AI/pytorch-lightning issue 6626
    """
    for launch in rank_launchers(script):
        procs = procs_of(script, launch) or 0
        alone = launch.is_direct and not launch.may_run_beside_others
        if script.job.nodes == 1 and procs > 1 and alone:
            yield Finding(
                launch.span,
                f"{launch.kind} starts {procs} ranks outside any job step",
                "start it with `srun` and one task",
            )


_DISTRIBUTES = frozenset(
    """
    srun mpirun mpiexec orterun ssh pdsh clush ray dask dask-scheduler parallel sbatch scontrol deepspeed
    horovodrun ibrun jsrun aprun blaze spark-submit
    """.split()
)
_ON_ONE_NODE = {"python", "ray", RAY_ON_ALL_NODES}


@rule("SG212", "warning")
def unused_nodes(script: Script) -> Iterator[Finding]:
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
    nodes = script.job.nodes or 1
    if nodes < 2 or script.shell.sourced or not script.launches or runs_a_shell_script(words_of(script)):
        return
    if any(not command.name for command in script.commands):
        return  # such a command may be srun
    used = {
        program_name(word.text)
        for command in script.commands
        if "output" not in command.place
        for word in command.words
    }
    kinds = {launch.kind for launch in script.launches}
    starts_ray = bool(kinds & {"ray", RAY_ON_ALL_NODES})
    if used.isdisjoint(_DISTRIBUTES - ({"ray"} if starts_ray else set())) and kinds <= _ON_ONE_NODE:
        yield Finding(
            script.launches[0].span,
            f"nothing runs on {nodes - 1} of the {nodes} nodes",
            "start it with `srun`, or request `--nodes=1`",
        )


@rule("SG213", "error")
def blocking_loop(script: Script) -> Iterator[Finding]:
    """A loop over the nodes starts one launcher after the other.

    ## What it checks
    Checks for launchers that are configured for several nodes, on a named node or one node, in a loop, and
    not in the background.

    ## Why it matters
    The first launcher waits for the others, which the loop starts only after it has ended.

    ## Example
        for i in 0 1; do
          srun -N1 -n1 -w "${nodes[i]}" torchrun --nnodes=2 --node-rank=$i ... train.py
        done

    ## Use instead
        for i in 0 1; do
          srun -N1 -n1 -w "${nodes[i]}" torchrun --nnodes=2 --node-rank=$i ... train.py &
        done
        wait

    ## When to ignore
    If the loop runs once, with all nodes in one srun.

    ## Reference
    https://docs.pytorch.org/docs/stable/elastic/run.html
    """
    for launch in rank_launchers(script):
        place = launch.command.place
        options = launch.step.options if launch.step else None
        on_one = options and ("nodelist" in options.given or options.number("nodes") == 1)
        nodes = nodes_of(launch)
        is_group = (nodes or 0) > 1 or (nodes is None and "node-rank" in launch.options.given)
        if (on_one or launch.under("ssh")) and is_group and "loop" in place and "background" not in place:
            yield Finding(
                launch.span,
                f"the loop waits for this {launch.kind}, which waits for those on the other nodes",
                "start it in the background with `&`, and add `wait` after the loop",
            )


@rule("SG214", "warning")
def ray_without_block(script: Script) -> Iterator[Finding]:
    """srun starts Ray in the background, and Slurm ends it with the step.

    ## What it checks
    Checks for `ray start` without `--block` as the command of srun. In a shell that srun starts, other
    commands may follow it; then nothing is reported.

    ## Why it matters
    `ray start` returns as soon as Ray runs. Its task has then ended, and with the step Slurm kills all
    processes that the step has left (with `proctrack/cgroup`, its default). The program finds no Ray.

    ## Example
        srun --nodes=1 --ntasks=1 ray start --head --port="$PORT"
        python train.py

    ## Use instead
        srun --nodes=1 --ntasks=1 ray start --head --port="$PORT" --block &
        python train.py

    ## When to ignore
    If the site's ProctrackType does not find processes that detach themselves.

    ## Reference
    https://docs.ray.io/en/latest/cluster/vms/user-guides/community/slurm.html
    https://slurm.schedmd.com/slurm.conf.html#OPT_ProctrackType
    """
    for launch in rank_launchers(script, "ray"):
        if launch.step and not launch.under("shell") and launch.options.lacks("block"):
            yield Finding(
                launch.span,
                "ray start returns at once, and Slurm ends the processes of a step with its tasks",
                "add `--block`, and start the step in the background with `&`",
            )


@rule("SG311", "warning")
def deepspeed_hosts(script: Script) -> Iterator[Finding]:
    """deepspeed runs on several nodes without a list of the nodes of this job.

    ## What it checks
    Checks for deepspeed outside srun in a job with several nodes, without `--hostfile` or `--launcher slurm`,
    or with a hostfile that the script does not write. A hostfile that it writes under a constant name is
    reported, too: two jobs overwrite it. Under srun, `--num_nodes` without `--no_ssh` is reported.

    ## Why it matters
    deepspeed reads the nodes from /job/hostfile by default. Without the file it starts ranks on the first
    node only. A hostfile with fixed names belongs to one job: the next job gets other nodes.

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
    yield from _shared_hostfiles(script)
    yield from _hosts_under_srun(script)
    if (script.job.nodes or 1) < 2:
        return
    for launch in rank_launchers(script, "deepspeed"):
        options = launch.options
        if launch.step or launch.under("ssh"):
            continue
        hostfile = options.text("hostfile")
        if options.lacks("hostfile", "launcher", "no-ssh"):
            fact = "deepspeed has no list of nodes, and uses the first node only"
            yield Finding(launch.span, fact, _WRITE_HOSTFILE)
        elif hostfile and script.source.plain.count(hostfile) == 1:
            fact = f"the script does not write {hostfile!r}, but every job has its own nodes"
            yield Finding(launch.span, fact, _WRITE_HOSTFILE)


def _shared_hostfiles(script: Script) -> Iterator[Finding]:
    """The hostfiles that the script writes under a name that is the same in every job."""
    for launch in rank_launchers(script, "deepspeed"):
        hostfile = launch.options.text("hostfile")
        if hostfile and not hostfile.startswith(_LOCAL_FOLDERS) and script.source.plain.count(hostfile) > 1:
            yield Finding(
                launch.options.given["hostfile"].word.span,
                f"every job of this script writes the same hostfile, {hostfile!r}",
                "put the job ID into its name: `hostfile-$SLURM_JOB_ID`",
            )


def _hosts_under_srun(script: Script) -> Iterator[Finding]:
    """The launches under srun that each start the ranks of all nodes."""
    for launch in rank_launchers(script, "deepspeed"):
        options, nodes = launch.options, launch.options.number("num-nodes")
        if (nodes or 1) > 1 and several_nodes(script, launch) and options.lacks("no-ssh", "node-rank"):
            yield Finding(
                launch.span,
                f"srun starts deepspeed on each node, and each one starts the ranks of {nodes} nodes",
                "start it once, without srun, or add `--no_ssh` and `--node_rank=$SLURM_NODEID`",
            )


_LOCAL_FOLDERS = ("/dev/", "/tmp/", "/job/")  # noqa: S108
_WRITE_HOSTFILE = 'write the hostfile from `scontrol show hostnames "$SLURM_JOB_NODELIST"`'
