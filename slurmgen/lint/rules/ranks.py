"""Ranks, tasks and GPUs of a node that do not fit together."""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, rule
from slurmgen.lint.reader import Launch, Script, Span
from slurmgen.lint.rules.common import (
    FRAMEWORKS,
    PER_NODE,
    in_force,
    insert,
    is_amd,
    procs_of,
    rank_launchers,
    ranks_of_mpirun,
    runs_a_shell_script,
    steps,
    usable_gpus,
    visible_gpus,
    words_of,
)
from slurmgen.text import counted


@rule("SG201", "error")
def launcher_per_task(script: Script) -> Iterator[Finding]:
    """srun starts several copies of a launcher on each node instead of one.

    ## What it checks
    Checks for torchrun, accelerate, deepspeed, `ray start` or `ray symmetric-run` under an srun with several
    tasks per node. These launchers start one rank per GPU, or Ray's workers, themselves. A launcher whose
    `--nnodes` or `--num_machines` equals the number of tasks, or cannot be determined, is not reported: it
    intentionally treats each task as a node. Also checks for mpirun or horovodrun, with more than one rank,
    under an srun with several tasks.

    ## Why it matters
    Each copy starts all ranks of a node, and all copies use the same port. The job fails because the address
    is in use, or trains several times in parallel on the same GPUs. Each copy of Ray offers all GPUs of the
    node.

    ## Example
        #SBATCH --ntasks-per-node=4
        srun torchrun --nproc-per-node=4 train.py

    ## Use instead
        #SBATCH --ntasks-per-node=1
        srun torchrun --nproc-per-node=4 train.py

    Multiply `--cpus-per-task` by the previous number of tasks: the one task needs the CPUs of all of them.

    ## When to ignore
    If each task is a group of its own, with GPUs and a port of its own.

    ## Reference
    ultralytics/yolov5 issue 12429 ; interTwin-eu/itwinai issue 360
    """
    yield from _copies_of_mpirun(script)
    for launch in rank_launchers(script, *PER_NODE):
        shape, launcher = script.step(launch), PER_NODE[launch.kind]
        wanted = launcher.ntasks_per_node(shape.gpus_per_node or 1)
        tasks = shape.ntasks_per_node
        if launch.step and tasks and tasks > wanted and not _treats_tasks_as_nodes(launch, shape.ntasks):
            yield Finding(
                launch.span,
                f"srun starts {launch.kind} {tasks} times on each node, and each copy starts its own ranks",
                f"use `--ntasks-per-node={wanted}` with the CPUs of all tasks; {launcher.why}",
            )


def _treats_tasks_as_nodes(launch: Launch, ntasks: int | None) -> bool:
    """Whether the launcher intentionally treats each task as a node."""
    nodes = launch.options.first("nnodes", "num-machines")
    number = launch.options.number("nnodes") or launch.options.number("num-machines")
    return nodes is not None and number in (None, ntasks)


def _copies_of_mpirun(script: Script) -> Iterator[Finding]:
    """Each mpirun that srun starts several times, unless a copy is a single rank."""
    for launch in script.started:
        kinds = [layer.kind for layer in launch.layers]
        if "srun" not in kinds or "mpirun" not in kinds[kinds.index("srun") :]:
            continue
        layer, tasks = launch.layers[kinds.index("mpirun")], script.step(launch).ntasks or 1
        if tasks > 1 and ranks_of_mpirun(layer) != 1:
            yield Finding(
                layer.word.span,
                f"srun starts {layer.word.text} {tasks} times, and each copy starts all ranks",
                f"leave out one of them: `srun` starts one rank per task without {layer.word.text}",
            )


@rule("SG202", "error")
def more_ranks_than_gpus(script: Script) -> Iterator[Finding]:
    """A launcher starts more ranks on a node than there are GPUs.

    ## What it checks
    Compares the number of ranks that a launcher starts on a node with the number of GPUs that the job
    requests per node, and with those in CUDA_VISIBLE_DEVICES if the script sets it. Launches with `--cpu` are
    not reported.

    ## Why it matters
    NCCL rejects two ranks on one GPU ("duplicate GPU detected"), or a rank selects a device that does not
    exist ("invalid device ordinal").

    ## Example
        #SBATCH --gres=gpu:2
        srun torchrun --standalone --nproc-per-node=4 train.py

    ## Use instead
        #SBATCH --gres=gpu:2
        srun torchrun --standalone --nproc-per-node=2 train.py

    ## When to ignore
    If the ranks share the GPUs on purpose, for example with the backend gloo or MPS.

    ## Reference
    https://docs.pytorch.org/docs/stable/elastic/run.html
    """
    for launch in rank_launchers(script):
        gpus, procs = usable_gpus(script, launch), procs_of(script, launch) or 0
        if gpus and procs > FRAMEWORKS[launch.kind].procs_per_task(gpus) and not launch.options.first("cpu"):
            yield Finding(
                launch.span,
                f"{launch.kind} starts {procs} ranks on a node with {counted(gpus, 'GPU')}",
                f"start {counted(gpus, 'rank')} per node, one per GPU",
            )


@rule("SG203", "warning")
def idle_gpus(script: Script) -> Iterator[Finding]:
    """A launcher starts fewer ranks on a node than there are GPUs.

    ## What it checks
    If a job has only one launch, compares its ranks on a node with the GPUs that the job requests per node.
    torchrun starts one rank unless `--nproc-per-node` is given. A script that sets `CUDA_VISIBLE_DEVICES` to
    anything but a list of numbers, or `ROCR_VISIBLE_DEVICES`, is not reported. Also checks for Python that
    starts once, without srun, in a job with a task for each GPU.

    ## Why it matters
    The remaining GPUs are idle but are charged to the account.

    ## Example
        #SBATCH --gres=gpu:4
        srun torchrun --standalone train.py

    ## Use instead
        #SBATCH --gres=gpu:4
        srun torchrun --standalone --nproc-per-node=4 train.py

    ## When to ignore
    If the remaining GPUs are used by another program, or hold data.

    ## Reference
    https://docs.pytorch.org/docs/stable/elastic/run.html
    """
    yield from _started_once(script)
    if len(script.launches) != 1 or any(script.assigned("ROCR_VISIBLE_DEVICES")):
        return
    for launch in rank_launchers(script):
        shape, procs = script.step(launch), procs_of(script, launch)
        gpus = shape.gpus_per_node
        wanted = FRAMEWORKS[launch.kind].procs_per_task(gpus or 1)
        alone = shape.ntasks_per_node == 1 and not launch.may_run_beside_others
        alone = alone and not _is_difference(script, launch)
        if gpus and procs and procs < wanted and alone and _sees_no_other(launch):
            ranks = counted(procs, "rank")
            yield Finding(
                launch.span,
                f"{launch.kind} starts {ranks} on a node with {gpus} GPUs: {gpus - procs} idle",
                f"start {wanted} ranks per node, or request fewer GPUs",
            )


def _is_difference(script: Script, launch: Launch) -> bool:
    """Whether the number of ranks is computed as a difference, which keeps GPUs for another program."""
    given = launch.options.first("num-processes", "nproc-per-node")
    found = in_force(script, launch, set(given.word.names)) if given else ()
    return bool(given and " - " in given.word.raw) or any(re.search(r"\d\s*-\s*\d", f.raw) for f in found)


def _sees_no_other(launch: Launch) -> bool:
    """Whether the launch may use all GPUs, or a constant list of them."""
    return "CUDA_VISIBLE_DEVICES" not in launch.env or visible_gpus(launch) is not None


def _started_once(script: Script) -> Iterator[Finding]:
    """Python without srun in a job with a task for each GPU."""
    gpus, tasks = script.job.gpus_per_node, script.job.ntasks_per_node
    if len(script.started) != 1 or not gpus or gpus < 2 or tasks != gpus:
        return
    launch = script.started[0]
    is_main = launch.script is not None and not {"background", "output"} & set(launch.command.place)
    is_plain = launch.kind == "python" and not launch.layers
    if is_plain and is_main and not runs_a_shell_script(words_of(script)):
        yield Finding(
            launch.span,
            f"the header has {tasks} tasks for {gpus} GPUs, but Python starts once",
            "start it with `srun`, or with torchrun and one task per node",
        )


_DIVIDING = ("gpus-per-task", "ntasks-per-gpu", "tres-per-task")


@rule("SG207", "warning")
def gpus_per_task(script: Script) -> Iterator[Finding]:
    """`--gpus-per-task` hides the GPUs of a node from the other tasks.

    ## What it checks
    Checks for `--gpus-per-task`, or `--ntasks-per-gpu` or `--tres-per-task` with GPUs, in the header or on
    srun, with several tasks per node and without `--gpu-bind=none` or `--gres-flags=allow-task-sharing`. Jobs
    for AMD GPUs are not reported: their centers recommend one GPU for each task.

    ## Why it matters
    Each rank sees only its own GPU. NCCL cannot access the others directly, and falls back to a slower
    transport or fails. Lightning stops: "requested [0..3], machine only has [0]".

    ## Example
        #SBATCH --ntasks-per-node=4
        #SBATCH --gpus-per-task=1

    ## Use instead
        #SBATCH --ntasks-per-node=4
        #SBATCH --gpus-per-node=4

    ## When to ignore
    If the ranks exchange nothing between their GPUs.

    ## Reference
    NVIDIA/nccl issue 1066 ; Lightning-AI/pytorch-lightning issue 16828
    """
    if is_amd(script):
        return
    for launch in script.launches:
        tasks, place = script.step(launch).ntasks_per_node, _dividing_option(script, launch)
        if place and tasks and tasks > 1 and not _is_unbound(script, launch):
            yield Finding(
                place,
                f"each of the {tasks} tasks on a node sees only its own GPUs",
                "request the GPUs per node: `--gres=gpu:N` or `--gpus-per-node=N`",
            )


def _dividing_option(script: Script, launch: Launch) -> Span | None:
    if launch.step is None or script.step(launch).visible_gpus is None:
        return None
    given, directive = launch.step.options.first(*_DIVIDING), script.header.last(*_DIVIDING)
    return given.word.span if given else directive.span if directive else None


def _is_unbound(script: Script, launch: Launch) -> bool:
    return (
        _given(script, launch, "gpu-bind") == "none"
        or "allow-task-sharing" in _given(script, launch, "gres-flags")
        or any(script.assigned("SLURM_GPU_BIND", "CUDA_VISIBLE_DEVICES"))
    )


def _given(script: Script, launch: Launch, name: str) -> str:
    """The value of an option of srun, or of the header."""
    given = launch.step.options.given.get(name) if launch.step else None
    return given.value if given else script.header.value(name) or ""


_ACCELERATE_KINDS = (
    "multi-gpu use-deepspeed use-fsdp use-megatron-lm use-parallelism-config cpu tpu config-file".split()
)


@rule("SG208", "error")
def accelerate_without_multi_gpu(script: Script) -> Iterator[Finding]:
    """accelerate runs on several machines with one GPU each, without `--multi_gpu`.

    ## What it checks
    Checks for `accelerate launch` with more than one process on machines with one GPU, without `--multi_gpu`,
    `--use_deepspeed`, `--use_fsdp`, `--cpu`, a similar option or a configuration file. With several GPUs in a
    machine, accelerate chooses `--multi_gpu` itself.

    ## Why it matters
    accelerate looks at the GPUs of its own machine only. With one GPU it starts one process that is not part
    of a group, so every machine trains alone. A default configuration file in the home directory can change
    this.

    ## Example
        #SBATCH --nodes=4
        #SBATCH --gpus-per-node=1
        srun accelerate launch --num_machines=4 --num_processes=4 ... train.py

    ## Use instead
        #SBATCH --nodes=4
        #SBATCH --gpus-per-node=1
        srun accelerate launch --multi_gpu --num_machines=4 --num_processes=4 ... train.py

    ## When to ignore
    If a default configuration file of accelerate selects the kind of training.

    ## Reference
    huggingface/accelerate pull requests 2096 and 3229
    """
    for launch in rank_launchers(script, "accelerate"):
        shape, options = script.step(launch), launch.options
        several = "num-processes" in options.given and options.number("num-processes") != 1
        has_one_gpu = shape.gpus_per_node == 1 and shape.nodes != 1
        if several and has_one_gpu and options.lacks(*_ACCELERATE_KINDS):
            yield Finding(
                launch.span,
                "with one GPU per machine and no --multi_gpu, each machine trains alone",
                "add `--multi_gpu`",
                insert(script, launch.word, launch.options_at, " --multi_gpu"),
            )


@rule("SG210", "warning")
def tasks_share_gpus(script: Script) -> Iterator[Finding]:
    """srun starts more tasks of a Python script on a node than there are GPUs.

    ## What it checks
    Compares the tasks per node of an srun that runs Python with the GPUs per node, or with those in
    CUDA_VISIBLE_DEVICES if the script sets it, and the ranks of an mpirun with the GPUs of the job.

    ## Why it matters
    A framework that uses each task as a rank, such as Lightning, selects the GPU with the number of the task:
    the device does not exist ("invalid device ordinal"), or two ranks share a GPU.

    ## Example
        #SBATCH --ntasks-per-node=8
        #SBATCH --gres=gpu:4
        srun python train.py

    ## Use instead
        #SBATCH --ntasks-per-node=4
        #SBATCH --gres=gpu:4
        srun python train.py

    ## When to ignore
    If several tasks use one GPU on purpose, or most tasks use only CPUs.

    ## Reference
    https://lightning.ai/docs/pytorch/stable/clouds/cluster_advanced.html
    """
    yield from _ranks_of_mpirun(script)
    for launch, step in steps(script):
        gpus, tasks = usable_gpus(script, launch), script.step(launch).ntasks_per_node
        if launch.kind == "python" and gpus and tasks and tasks > gpus:
            yield Finding(
                step.word.span,
                f"srun starts {tasks} tasks on a node with {counted(gpus, 'GPU')}",
                f"use `--ntasks-per-node={gpus}`, or request {tasks} GPUs per node",
            )


def _ranks_of_mpirun(script: Script) -> Iterator[Finding]:
    """Compare the ranks of each mpirun with the GPUs of all nodes."""
    for launch in script.launches:
        layer, gpus = launch.under("mpirun"), script.job.gpus
        ranks = ranks_of_mpirun(layer) if layer else None
        if layer and gpus and ranks and ranks > gpus and launch.kind == "python" and launch.step is None:
            yield Finding(
                layer.word.span,
                f"{layer.word.text} starts {ranks} ranks for {counted(gpus, 'GPU')}",
                f"start {counted(gpus, 'rank')}, or request more GPUs",
            )


@rule("SG211", "warning")
def visible_devices(script: Script) -> Iterator[Finding]:
    """CUDA_VISIBLE_DEVICES is set by hand and does not match the GPUs of the job.

    ## What it checks
    Checks for `CUDA_VISIBLE_DEVICES` set to a list of numbers that has more GPUs than the job has on a node,
    or a number that is too large, and for a list of fewer GPUs for the only launch of a script.

    ## Why it matters
    Slurm sets the variable itself. With device cgroups, the GPUs of a job have the numbers from 0; a larger
    number does not exist, and the ranks find fewer GPUs. Without cgroups, it belongs to another job.

    ## Example
        #SBATCH --gres=gpu:2
        export CUDA_VISIBLE_DEVICES=0,1,2,3

    ## Use instead
        #SBATCH --gres=gpu:2

    ## When to ignore
    On a cluster that does not manage its GPUs with Slurm.

    ## Reference
    https://slurm.schedmd.com/gres.html (GPU management)
    """
    gpus = script.job.gpus_per_node
    if not gpus or script.header.last("exclusive"):
        return
    for found in script.assigned("CUDA_VISIBLE_DEVICES"):
        if not re.fullmatch(r"\d{1,4}(,\d{1,4})*", found.value):
            continue
        numbers = [int(number) for number in found.value.split(",")]
        if max(numbers) >= gpus or len(numbers) > gpus or _leaves_some(script, len(numbers), gpus):
            yield Finding(
                found.span,
                f"CUDA_VISIBLE_DEVICES={found.value}, but the job has {counted(gpus, 'GPU')} on a node",
                "delete the line: Slurm sets the variable",
            )


def _leaves_some(script: Script, number: int, gpus: int) -> bool:
    """Whether the only launch of the script uses a part of the GPUs."""
    launch, *others = script.started or (None,)
    is_only = launch and not others and not launch.may_run_beside_others and launch.step is None
    return bool(is_only) and number < gpus
