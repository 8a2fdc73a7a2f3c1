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
    for launch in steps(script, programs=True):
        step = launch.step
        if step and _lacks_cpus(script, launch) and not has_unbound_cpus(launch):
            yield Finding(
                step.word.span,
                f"srun does not inherit --cpus-per-task={cpus}; in many Slurm versions a task gets one CPU",
                'add `--cpus-per-task="$SLURM_CPUS_PER_TASK"`',
                insert(script, step.word, step.word.span.end, ' --cpus-per-task="$SLURM_CPUS_PER_TASK"'),
            )


def _lacks_cpus(script: Script, launch: Launch) -> bool:
    step = launch.step
    if step is None or step.options.given.keys() & _CPUS_OF_STEP or not _is_complete(script, launch, step):
        return False
    return "SRUN_CPUS_PER_TASK" not in launch.env


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
    header = script.header
    tasks = next((found for name in _TASK_OPTIONS if (found := header.last(name))), None)
    lacks_cpus = not any(header.last(name) for name in _CPUS_OF_JOB)
    on_srun = any(launch.step and "cpus-per-task" in launch.step.options.given for launch in script.launches)
    single = header.last("cpus-per-task") if script.job.cpus_per_task == 1 else None
    if single and script.job.has_gpus and _has_ranks(script) and (script.job.ntasks_per_node or 0) <= _FEW:
        yield Finding(
            single.span,
            "each GPU task has one CPU, which all workers of its data loader share",
            "request the site's number of CPUs per GPU",
        )
    place = tasks or (header.last("gres") if _trains_on_several(script) else None)
    if (
        place
        and lacks_cpus
        and script.job.has_gpus
        and script.launches
        and not _is_single(script)
        and not on_srun
        and not _tasks_are_cpus(script)
    ):
        yield Finding(
            place.span,
            "the job requests GPUs, but no CPUs; by default each task gets one CPU",
            "add `#SBATCH --cpus-per-task=N`, with the site's number of CPUs per GPU",
        )


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
    tasks = int(
        next((value for name in _TASK_OPTIONS if (value := script.header.value(name) or "").isdigit()), "0")
    )
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
    if len(script.launches) != 1:
        return
    launch = script.launches[0]
    shared = {"background", "loop"} & set(launch.command.place)
    if launch.step is None or shared or launch.step.options.open or has_unbound_cpus(launch):
        return
    requested, used = _cpus_on_node(script.job), _cpus_on_node(script.step(launch))
    if requested and used and used < requested:
        yield Finding(
            launch.step.word.span,
            f"the step uses {used} of the {requested} CPUs that the job has on a node",
            "request only the CPUs that the step needs, or give it all of them",
        )


def _cpus_on_node(shape: Shape) -> int | None:
    return (
        shape.ntasks_per_node * shape.cpus_per_task if shape.ntasks_per_node and shape.cpus_per_task else None
    )
