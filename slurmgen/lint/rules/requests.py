"""Requests of the header that contradict each other, or probably mean something else."""

from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, rule
from slurmgen.lint.reader import Script, Span
from slurmgen.slurm import units
from slurmgen.text import counted

MEMORY_OPTIONS = ("mem", "mem-per-cpu", "mem-per-gpu")


@rule("SG109", "error")
def memory_options(script: Script) -> Iterator[Finding]:
    """The header combines `--mem`, `--mem-per-cpu` and `--mem-per-gpu`.

    ## What it checks
    Checks for two or three of these options in one header. The parts of a heterogeneous job are checked
    separately.

    ## Why it matters
    The options are mutually exclusive; sbatch rejects the script.

    ## Example
        #SBATCH --mem=64G
        #SBATCH --mem-per-cpu=4G

    ## Use instead
        #SBATCH --mem=64G

    ## When to ignore
    Never: sbatch rejects the script.
    """
    for component in range(script.header.components):
        given = [d for d in script.header.directives if d.component == component and d.name in MEMORY_OPTIONS]
        if len({directive.name for directive in given}) > 1:
            names = " and ".join(f"--{name}" for name in MEMORY_OPTIONS if name in {d.name for d in given})
            yield Finding(
                given[-1].span,
                f"{names} are mutually exclusive; sbatch rejects the script",
                "keep one of them",
            )


_WORDS = ("UNLIMITED", "INFINITE", "-1")


@rule("SG110", "error")
def time_form(script: Script) -> Iterator[Finding]:
    """A time limit is invalid, or is in minutes where hours were probably intended.

    ## What it checks
    Checks `--time` and `--time-min` for values that are not in one of Slurm's time formats, and for `24:00`,
    `48:00`, `72:00`, `96:00`, `120:00`, `144:00` and `168:00`. As hours these would be whole days, but they
    are minutes and seconds. `24`, `48`, `72`, `96` and `168` alone are minutes too.

    ## Why it matters
    sbatch rejects `24h`. Slurm ends a job with `--time=24:00` after 24 minutes.

    ## Example
        #SBATCH --time=24:00

    ## Use instead
        #SBATCH --time=24:00:00

    ## When to ignore
    If the job really takes that number of minutes, such as 24. `00:24:00` shows this to the reader.

    ## Reference
    https://slurm.schedmd.com/sbatch.html ; rinikerlab/reeds pull request 79
    """
    for directive in script.header.directives:
        value = directive.value
        if directive.name not in ("time", "time-min") or not value or "$" in value:
            continue
        if hours := units.hours_as_minutes(value):
            end, minutes = directive.value_span.end, units.canonical_time(units.seconds(value))
            yield Finding(
                directive.value_span,
                f"{value} is {hours} minutes, not hours",
                f"write `{hours}:00:00` for hours, or `{minutes}` for minutes",
                (Edit(Span(end, end), f"{hours}:00:00"[len(value) :]),),
            )
        elif value.upper() not in _WORDS and seconds(value) is None:
            yield Finding(
                directive.value_span,
                f"{value!r} is not a valid Slurm time; sbatch rejects it",
                "write HH:MM:SS or D-HH:MM:SS",
            )


def seconds(text: str) -> int | None:
    """Seconds of a time limit; None if sbatch refuses it."""
    try:
        return units.seconds(text)
    except ValueError:
        return None


@rule("SG113", "warning")
def gpus_twice(script: Script) -> Iterator[Finding]:
    """The header requests GPUs with both `--gres=gpu` and `--gpus-per-node`.

    ## What it checks
    Checks for both options in one header.

    ## Why it matters
    The options are mutually exclusive from Slurm 26.05: sbatch rejects the script. Older versions accept
    them. If the numbers differ, Slurm 22.05 allocates that of `--gres`, and srun requests that of
    `--gpus-per-node` and fails.

    ## Example
        #SBATCH --gres=gpu:4
        #SBATCH --gpus-per-node=4

    ## Use instead
        #SBATCH --gpus-per-node=4

    ## When to ignore
    On a cluster whose Slurm is older, if both numbers agree.

    ## Reference
    https://github.com/SchedMD/slurm/blob/master/CHANGELOG/slurm-26.05.md
    """
    for component in range(script.header.components):
        given = [d for d in script.header.directives if d.component == component]
        gres = [d for d in given if d.name == "gres" and "gpu" in d.value]
        per_node = [d for d in given if d.name == "gpus-per-node"]
        if gres and per_node:
            yield Finding(
                max(gres[-1].span, per_node[-1].span),
                "--gres=gpu and --gpus-per-node are mutually exclusive from Slurm 26.05",
                "keep one of them",
            )


@rule("SG114", "error")
def fewer_tasks_than_nodes(script: Script) -> Iterator[Finding]:
    """The header requests fewer tasks than nodes.

    ## What it checks
    Compares `--ntasks` with `--nodes`.

    ## Why it matters
    Up to Slurm 25.11, sbatch reduces the number of nodes to the number of tasks, and only prints a warning.
    From 26.05 it rejects the job.

    ## Example
        #SBATCH --nodes=4
        #SBATCH --ntasks=1

    ## Use instead
        #SBATCH --nodes=4
        #SBATCH --ntasks-per-node=1

    ## When to ignore
    If one node is enough. Then request `--nodes=1`, which every version accepts.

    ## Reference
    https://github.com/SchedMD/slurm/blob/master/CHANGELOG/slurm-26.05.md
    """
    nodes, tasks = script.header.last("nodes"), script.header.last("ntasks")
    if nodes is None or tasks is None or script.header.components > 1:
        return
    least = nodes.value.partition("-")[0]
    if least.isdigit() and tasks.value.isdigit() and 0 < int(tasks.value) < int(least):
        yield Finding(
            tasks.span,
            f"the job has --nodes={nodes.value} but --ntasks={tasks.value}: "
            f"sbatch reduces it to {counted(int(tasks.value), 'node')}, or rejects it from Slurm 26.05",
            f"write `--ntasks-per-node`, or request `--nodes={tasks.value}`",
        )


@rule("SG120", "error")
def memory_unit(script: Script) -> Iterator[Finding]:
    """A job with GPUs requests a few megabytes of memory, probably because a unit is missing.

    ## What it checks
    Checks `--mem`, `--mem-per-gpu` and `--mem-per-cpu` of a job with GPUs for less than 100 MB. `--mem=0` is
    allowed: it requests all memory of the node.

    ## Why it matters
    Slurm reads a number without a unit as megabytes. With `--mem=64` the kernel kills the job when Python
    starts.

    ## Example
        #SBATCH --gres=gpu:2
        #SBATCH --mem=64

    ## Use instead
        #SBATCH --gres=gpu:2
        #SBATCH --mem=64G

    ## When to ignore
    Never: no program with GPUs runs in so little memory.

    ## Reference
    https://slurm.schedmd.com/sbatch.html#OPT_mem
    """
    for directive in script.header.directives if script.job.has_gpus else ():
        if directive.name in MEMORY_OPTIONS and 0 < megabytes(directive.value) < units.LEAST_MEMORY:
            value, end = directive.value, directive.value_span.end
            size = units.canonical_size(megabytes(value))
            yield Finding(
                directive.value_span,
                f"--{directive.name}={value} is {size}, too little for a job with GPUs",
                f"write `--{directive.name}={value}G` for gigabytes"
                if value.isdecimal()
                else "request more memory",
                (Edit(Span(end, end), "G"),) if value.isdecimal() else (),
            )


@rule("SG121", "note")
def exclusive_without_memory(script: Script) -> Iterator[Finding]:
    """A job with whole nodes does not request their memory.

    ## What it checks
    Checks for `--exclusive` without an option for memory in a job with GPUs. `--exclusive=user` is not
    checked.

    ## Why it matters
    `--exclusive` allocates all CPUs and GPUs of a node, but only the default memory, if the cluster limits
    memory by node or CPU (DefMemPerNode, DefMemPerCPU). Many clusters do not, so the rule is opt-in.

    ## Example
        #SBATCH --exclusive
        #SBATCH --gres=gpu:4

    ## Use instead
        #SBATCH --exclusive
        #SBATCH --gres=gpu:4
        #SBATCH --mem=0

    ## When to ignore
    If the default memory of the cluster is that of the node, or the site refuses `--mem`.

    ## Reference
    https://slurm.schedmd.com/sbatch.html#OPT_exclusive ; chapel-lang/chapel pull request 13667
    """
    directive = script.header.last("exclusive")
    if directive and not directive.value and script.job.has_gpus and not script.header.last(*MEMORY_OPTIONS):
        yield Finding(
            directive.span,
            "--exclusive allocates all CPUs of a node, but only the default memory",
            "add `#SBATCH --mem=0` for all memory of the node",
        )


def megabytes(text: str) -> int:
    """MiB of a size; 0 if sbatch refuses it."""
    try:
        return units.megabytes(text)
    except ValueError:
        return 0
