"""The training script, if it is available on this machine."""

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from slurmgen.files import read_text
from slurmgen.launchers import LAUNCHERS
from slurmgen.lint.finding import Finding, rule
from slurmgen.lint.reader import Launch, Script
from slurmgen.lint.reader.source import Budget, TooLarge
from slurmgen.lint.rules.common import trainer_argument
from slurmgen.python_source import LARGEST_FILE, Call, assigned, call_of, tree_of
from slurmgen.text import counted

_BYTE = 3
"Steps of the budget for each byte of Python."


def calls(script: Script, launch: Launch, name: str) -> tuple[Path | None, list[Call]]:
    """The path of the training script that a launch runs, if available, and its calls of a function."""
    path = _training_script(script, launch)
    try:
        found = _calls(path, script.budget).get(name, []) if path else []
        script.budget.spend(len(found))
    except TooLarge:
        return path, []
    return path, found


def _training_script(script: Script, launch: Launch) -> Path | None:
    """The training script on this machine: next to the batch script, or in the current directory."""
    word = launch.script
    if script.path is None or word is None or not word.known or not word.text.endswith(".py"):
        return None
    candidates = [folder / word.text for folder in (script.path.parent, Path.cwd())]
    return next((path for path in candidates if path.is_file()), None)


@lru_cache(maxsize=64)
def _calls(path: Path, budget: Budget) -> dict[str, list[Call]]:
    """The calls in a Python file by name; none if it cannot be read. The batch script pays for it."""
    found: dict[str, list[Call]] = {}
    try:
        text = read_text(path, LARGEST_FILE)
        budget.spend(_BYTE * len(text))
        tree = tree_of(text)
        constants = dict(assigned(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                call = call_of(node, constants)
                found.setdefault(call.name, []).append(call)
    except (OSError, SyntaxError, ValueError, RecursionError):  # the last one if it is nested too deeply
        return {}
    return found


@rule("SG701", "error")
def trainer_devices(script: Script) -> Iterator[Finding]:
    """Lightning's `devices` differs from the number of Slurm tasks per node.

    ## What it checks
    Compares `Trainer(devices=N)` in the training script, if the file is available, with the number of tasks
    per node of the srun that runs it, and `--trainer.devices=N` (LightningCLI) or `trainer.devices=N` (Hydra)
    on its command line.

    ## Why it matters
    Lightning uses each Slurm task as one of its ranks. If the numbers differ, it stops with "You set
    devices=2 ... but --ntasks-per-node=1 does not match", or leaves GPUs idle.

    ## Example
        #SBATCH --ntasks-per-node=1        # Trainer(devices=2)
        srun python train.py

    ## Use instead
        #SBATCH --ntasks-per-node=2        # Trainer(devices=2)
        srun python train.py

    ## When to ignore
    If the arguments of the call are changed before it runs.

    ## Reference
    Lightning-AI/pytorch-lightning issues 18650 and 20391
    """
    for launch in script.launches:
        if launch.kind != "python" or launch.step is None:
            continue
        tasks = script.step(launch).ntasks_per_node
        given = trainer_argument(launch, "devices")
        if given and tasks and given.number != tasks:
            yield Finding(
                given.span,
                f"{counted(tasks, 'task')} per node, but devices={given.number}",
                f"use `--ntasks-per-node={given.number}`; {LAUNCHERS['lightning'].why}",
            )
        path, trainers = calls(script, launch, "Trainer")
        for trainer in trainers:
            devices = trainer.number("devices")
            if path and tasks and devices and devices != tasks:
                directive = script.header.last("ntasks-per-node", "ntasks")
                yield Finding(
                    directive.span if directive else launch.span,
                    f"{counted(tasks, 'task')} per node, but devices={devices} in {_where(path, trainer)}",
                    f"use `--ntasks-per-node={devices}`; {LAUNCHERS['lightning'].why}",
                )


def _where(path: Path, call: Call) -> str:
    return f"{path.name} line {call.line}"


@rule("SG702", "error")
def trainer_nodes(script: Script) -> Iterator[Finding]:
    """Lightning's `num_nodes` differs from the number of nodes of the job.

    ## What it checks
    Compares `Trainer(num_nodes=N)` in the training script, if the file is available, with the number of nodes
    of the srun that runs it. `num_nodes` defaults to 1. Only a Trainer with `devices` is checked. `num_nodes`
    on the command line, such as `--trainer.num_nodes=N` or `--num_nodes N`, is compared as well.

    ## Why it matters
    The ranks disagree about the world size, and wait for each other until they time out.

    ## Example
        #SBATCH --nodes=2        # Trainer(devices=4)

    ## Use instead
        #SBATCH --nodes=2        # Trainer(devices=4, num_nodes=2)

    ## When to ignore
    If the arguments of the call are changed before it runs.

    ## Reference
    https://lightning.ai/docs/pytorch/stable/clouds/cluster_advanced.html
    """
    for launch in script.launches:
        nodes = script.step(launch).nodes
        if launch.kind != "python" or launch.step is None or not nodes:
            continue
        given = trainer_argument(launch, "num_nodes") or trainer_argument(launch, "num_nodes", bare=True)
        if given and given.number != nodes:
            yield Finding(
                given.span,
                f"the step has {counted(nodes, 'node')}, but num_nodes={given.number}",
                f"write {nodes}, or request `--nodes={given.number}`",
            )
        path, trainers = calls(script, launch, "Trainer")
        for trainer in trainers:
            num_nodes = trainer.number("num_nodes", default=1)
            if path and "devices" in trainer.constants and num_nodes and num_nodes != nodes:
                directive = script.header.last("nodes")
                where = _where(path, trainer)
                yield Finding(
                    directive.span if directive else launch.span,
                    f"the job has {counted(nodes, 'node')}, but {where} has num_nodes={num_nodes}",
                    f"write `Trainer(num_nodes={nodes})`, or request `--nodes={num_nodes}`",
                )


@rule("SG703", "warning")
def accelerator_overrules(script: Script) -> Iterator[Finding]:
    """The training script overrides the options of accelerate.

    ## What it checks
    Checks the training script, if the file is available, for `Accelerator(cpu=True)` in a job with GPUs, and
    for `Accelerator(mixed_precision=...)` that differs from `--mixed_precision`.

    ## Why it matters
    The training script takes precedence without a warning: the GPUs are idle, or training uses a different
    precision than the command line requests.

    ## Example
        accelerate launch --mixed_precision=bf16 train.py     # Accelerator(mixed_precision="fp16")

    ## Use instead
        accelerate launch --mixed_precision=bf16 train.py     # Accelerator()

    ## When to ignore
    If the override is meant.

    ## Reference
    https://huggingface.co/docs/accelerate/package_reference/accelerator
    """
    for launch in script.launches:
        path, accelerators = calls(script, launch, "Accelerator")
        for call in accelerators:
            fact = _on_cpu(script, call) or _precision(launch, call)
            if path and fact:
                fact = f"{_where(path, call)}: {fact}"
                yield Finding(launch.span, fact, "remove it from the training script")


def _on_cpu(script: Script, call: Call) -> str | None:
    on_cpu = call.constants.get("cpu") is True and script.job.has_gpus
    return "cpu=True leaves the job's GPUs idle" if on_cpu else None


def _precision(launch: Launch, call: Call) -> str | None:
    on_command_line, in_script = launch.options.text("mixed-precision"), call.constants.get("mixed_precision")
    differs = on_command_line is not None and in_script != on_command_line
    if launch.kind != "accelerate" or not differs or in_script not in ("no", "fp16", "bf16", "fp8"):
        return None
    return f"mixed_precision={in_script!r} overrides --mixed_precision={on_command_line}"


_CHOSEN = ("JAX_LOCAL_DEVICE_IDS", "VISIBLE_DEVICES")
_CHOOSE = {"local_device_ids", "cluster_detection_method"}


@rule("SG704", "warning")
def jax_devices(script: Script) -> Iterator[Finding]:
    """JAX uses one GPU of each task, and the job has fewer tasks than GPUs.

    ## What it checks
    Checks for `jax.distributed.initialize()` without `local_device_ids` in the training script, if the file
    is available, under an srun with fewer tasks than GPUs on a node. A script that sets
    `JAX_LOCAL_DEVICE_IDS` or the visible devices is not reported.

    ## Why it matters
    In a step of Slurm, JAX gives each process the one GPU with the number `SLURM_LOCALID`. The others are
    idle.

    ## Example
        #SBATCH --ntasks-per-node=1
        #SBATCH --gres=gpu:4
        srun python train.py               # jax.distributed.initialize()

    ## Use instead
        #SBATCH --ntasks-per-node=4
        #SBATCH --gres=gpu:4
        srun python train.py               # jax.distributed.initialize()

    ## When to ignore
    If the script calls it in a branch that does not run.

    ## Reference
    https://docs.jax.dev/en/latest/_autosummary/jax.distributed.initialize.html
    https://github.com/jax-ml/jax/blob/main/jax/_src/clusters/cluster.py
    """
    if len(script.launches) != 1 or any(name in script.source.plain for name in _CHOSEN):
        return
    launch = script.launches[0]
    shape = script.step(launch)
    tasks, gpus = shape.ntasks_per_node, shape.gpus_per_node
    if launch.kind != "python" or not launch.step or not tasks or not gpus or tasks >= gpus:
        return
    path, found = calls(script, launch, "initialize")
    if path and (call := next(filter(_takes_one_gpu, found), None)):
        yield Finding(
            launch.span,
            f"{counted(tasks, 'task')} per node for {gpus} GPUs, and JAX uses one per task: "
            f"{_where(path, call)}",
            f"use `--ntasks-per-node={gpus}`; {LAUNCHERS['jax'].why}",
        )


def _takes_one_gpu(call: Call) -> bool:
    is_certain = call.complete and not call.positional and not _CHOOSE & call.constants.keys()
    return call.owner == "jax.distributed" and is_certain


@rule("SG705", "error")
def lightning_job_name(script: Script) -> Iterator[Finding]:
    """Lightning takes the job for an interactive one.

    ## What it checks
    Checks for a job with the name `bash` or `interactive` whose training script, if the file is available,
    has a `Trainer`, under an srun with several tasks.

    ## Why it matters
    Lightning then ignores Slurm: each task trains alone, or tries to start the others itself.

    ## Example
        #SBATCH --job-name=interactive
        srun --ntasks=2 python train.py    # Trainer(devices=2)

    ## Use instead
        #SBATCH --job-name=train
        srun --ntasks=2 python train.py    # Trainer(devices=2)

    ## When to ignore
    If the Trainer gets an environment plug-in of its own.

    ## Reference
    Lightning-AI/pytorch-lightning issue 19762
    """
    directive = script.header.last("job-name")
    if directive is None or directive.value not in LAUNCHERS["lightning"].refused_names:
        return
    for launch in script.launches:
        has_tasks = launch.step is not None and script.step(launch).least_tasks > 1
        if has_tasks and calls(script, launch, "Trainer")[1]:
            fact = f"Lightning treats a job named {directive.value!r} as interactive, and ignores Slurm"
            yield Finding(directive.value_span, fact, "give the job another name")
