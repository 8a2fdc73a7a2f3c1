"""CPUs of the job and of its steps."""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, rule
from slurmgen.lint.reader import Launch, Script, Shape
from slurmgen.lint.reader.launch import Layer
from slurmgen.lint.rules.common import FRAMEWORKS, has_unbound_cpus, insert, steps

_CPUS_OF_STEP = {"cpus-per-task", "cpus-per-gpu", "het-group"}
_MAY_SET = re.compile(r"cpus|-c\b|-c\d|[@*]|`")


@rule("SG401", "warning")
def cpus_not_passed(script: Script) -> Iterator[Finding]:
    """srun does not inherit `--cpus-per-task` from the header.

    ## What it checks
    Checks for a header with `--cpus-per-task` and an srun without it that starts Python, a launcher, or a
    program that is not a utility such as `hostname`, in a script that does not export `SRUN_CPUS_PER_TASK`. A
    step with `--cpu-bind=none` is not reported.

    ## Why it matters
    Since Slurm 22.05, srun does not inherit the value from the header; the details differ between versions. A
    task may then get a single CPU, and the GPUs wait for the data loaders.

    ## Example
        #SBATCH --cpus-per-task=16
        srun python train.py

    ## Use instead
        #SBATCH --cpus-per-task=16
        srun --cpus-per-task="$SLURM_CPUS_PER_TASK" python train.py

    ## When to ignore
    On a cluster whose Slurm is older than 22.05.

    ## Reference
    https://slurm.schedmd.com/srun.html ; reframe-hpc/reframe issue 2655
    """
    cpus = script.job.cpus_per_task
    if not cpus or cpus == 1:
        return
    for launch, step in steps(script, programs=True):
        if _lacks_cpus(script, launch, step) and not has_unbound_cpus(launch):
            yield Finding(
                step.word.span,
                f"srun does not inherit --cpus-per-task={cpus}; in many Slurm versions a task gets one CPU",
                'add `--cpus-per-task="$SLURM_CPUS_PER_TASK"`',
                insert(script, step.word, step.word.span.end, ' --cpus-per-task="$SLURM_CPUS_PER_TASK"'),
            )


def _lacks_cpus(script: Script, launch: Launch, step: Layer) -> bool:
    is_given = step.options.first(*_CPUS_OF_STEP) or "SRUN_CPUS_PER_TASK" in launch.env
    return not is_given and _is_complete(script, launch, step)


def _is_complete(script: Script, launch: Launch, step: Layer) -> bool:
    """Whether all options of srun are known, or are in variables that the script sets to others only."""
    if not step.options.open:
        return True
    front = (step.word.span.end, launch.span.start)
    names = {
        name
        for word in launch.command.words
        if word.loose and front[0] <= word.span.start <= front[1]
        for name in word.names
    }
    values = list(script.assigned(*names))
    known = {found.name for found in values} == names and not any(_MAY_SET.search(v.raw) for v in values)
    return bool(names) and known


_FEW = 8
"A job with more tasks on a node may use them as CPUs."
_TASK_OPTIONS = ("ntasks-per-node", "tasks-per-node", "ntasks")
_CPUS_OF_JOB = (
    "cpus-per-task cpus-per-gpu exclusive mincpus extra-node-info cores-per-socket sockets-per-node "
    "ntasks-per-core tres-per-task threads-per-core"
).split()


@rule("SG402", "warning")
def cpus_not_asked(script: Script) -> Iterator[Finding]:
    """A GPU job has one CPU for each task.

    ## What it checks
    Checks for a header with several GPUs and a number of tasks, or several GPUs in `--gres`, and no option
    for CPUs, in a script that starts Python or a launcher. If the header has `--cpus-per-task=1`, the script
    must also start one rank per GPU, by a launcher or by srun with several tasks. A script with
    `--cpus-per-task` on an srun is not reported, nor one with more tasks than GPUs that starts every launch
    once: its tasks stand for CPUs.

    ## Why it matters
    Slurm allocates one CPU per task, unless the site has a different default. All workers of the data loader
    share this CPU, and the GPUs wait for data.

    ## Example
        #SBATCH --ntasks-per-node=4
        #SBATCH --gres=gpu:4

    ## Use instead
        #SBATCH --ntasks-per-node=4
        #SBATCH --gres=gpu:4
        #SBATCH --cpus-per-task=8

    ## When to ignore
    If the site allocates CPUs with each GPU, or the task needs only one.

    ## Reference
    Lightning-AI/pytorch-lightning issue 18650
    """
    header, job = script.header, script.job
    if not job.has_gpus:
        return
    single = header.last("cpus-per-task") if job.cpus_per_task == 1 else None
    if single and _has_ranks(script) and (job.ntasks_per_node or 0) <= _FEW:
        yield Finding(
            single.span,
            "each GPU task has one CPU, which all workers of its data loader share",
            "request the site's number of CPUs per GPU",
        )
    place = header.last(*_TASK_OPTIONS) or (header.last("gres") if _trains_on_several(script) else None)
    if place and script.launches and not _asks_for_cpus(script) and not _is_single(script):
        yield Finding(
            place.span,
            "the job requests GPUs, but no CPUs; by default each task gets one CPU",
            "add `#SBATCH --cpus-per-task=N`, with the site's number of CPUs per GPU",
        )


@rule("SG404", "note")
def cpus_of_one_gpu(script: Script) -> Iterator[Finding]:
    """A job with one GPU does not request CPUs.

    ## What it checks
    Checks for a header with one GPU and no option for CPUs, in a script that starts Python or a launcher.
    SG402 reports jobs with several GPUs or tasks.

    ## Why it matters
    Slurm allocates one CPU, unless the site has a different default. The workers of the data loader share it
    with the training. Some programs need no more, so the rule is opt-in.

    ## Example
        #SBATCH --gres=gpu:1

    ## Use instead
        #SBATCH --gres=gpu:1
        #SBATCH --cpus-per-task=8

    ## When to ignore
    If the site allocates CPUs with each GPU, or the program needs only one.
    """
    place = script.header.last("gres", "gpus", "gpus-per-node", "gpus-per-task")
    if place and script.launches and _is_single(script) and not _asks_for_cpus(script):
        yield Finding(
            place.span,
            "the job requests one GPU, but no CPUs; by default it gets one",
            "add `#SBATCH --cpus-per-task=N`, with the site's number of CPUs per GPU",
        )


def _asks_for_cpus(script: Script) -> bool:
    """Whether the header, an srun, or the number of tasks requests CPUs."""
    on_srun = any(launch.step and launch.step.options.first("cpus-per-task") for launch in script.launches)
    return bool(script.header.last(*_CPUS_OF_JOB)) or on_srun or _tasks_are_cpus(script)


def _is_single(script: Script) -> bool:
    """Whether the job has one GPU and one task: it may need no workers for its data."""
    job = script.job
    return job.gpus == 1 and job.ntasks in (None, 1)


def _has_ranks(script: Script) -> bool:
    """Whether the script starts several ranks, as training does."""
    return not _is_single(script) and any(
        launch.kind in FRAMEWORKS or launch.under("mpirun") or (script.step(launch).ntasks or 1) > 1
        for launch in script.launches
    )


def _trains_on_several(script: Script) -> bool:
    """Whether a launcher, or srun, starts the training on several GPUs of a node."""
    several = (script.job.gpus_per_node or 1) > 1
    return several and any(launch.kind != "python" or launch.step for launch in script.launches)


def _tasks_are_cpus(script: Script) -> bool:
    """Whether the number of tasks is meant as a number of CPUs: each launch runs once."""
    values = (script.header.value(name) or "" for name in _TASK_OPTIONS)
    tasks = int(next(filter(str.isdigit, values), "0"))
    once = all(script.step(launch).ntasks == 1 and not launch.under("mpirun") for launch in script.launches)
    return once and tasks > max(script.job.gpus_per_node or 1, 1)


@rule("SG403", "warning")
def cpus_wasted(script: Script) -> Iterator[Finding]:
    """The step uses fewer CPUs of a node than the job requests.

    ## What it checks
    Checks for a script whose only launch is under an srun with fewer tasks, or fewer CPUs per task, than the
    header. A step with `--cpu-bind=none` is not reported.

    ## Why it matters
    The remaining CPUs are idle but are charged to the account. A common cause is a header for one task per
    GPU with an srun for one task per node.

    ## Example
        #SBATCH --ntasks-per-node=4
        #SBATCH --cpus-per-task=8
        srun --nodes=1 --ntasks=1 --cpus-per-task=8 torchrun --standalone --nproc-per-node=4 train.py

    ## Use instead
        #SBATCH --ntasks-per-node=1
        #SBATCH --cpus-per-task=32
        srun --cpus-per-task=32 torchrun --standalone --nproc-per-node=4 train.py

    ## When to ignore
    If the other CPUs are needed for their memory.

    ## Reference
    https://slurm.schedmd.com/srun.html
    """
    launch, *others = script.launches or (None,)
    if launch is None or others or launch.step is None or launch.may_run_beside_others:
        return
    if launch.step.options.open or has_unbound_cpus(launch):
        return
    requested, used = _cpus_on_node(script.job), _cpus_on_node(script.step(launch))
    if requested and used and used < requested:
        yield Finding(
            launch.step.word.span,
            f"the step uses {used} of the {requested} CPUs that the job has on a node",
            "request only the CPUs that the step needs, or give it all of them",
        )


def _cpus_on_node(shape: Shape) -> int | None:
    return (shape.ntasks_per_node or 0) * (shape.cpus_per_task or 0) or None
