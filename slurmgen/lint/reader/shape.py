"""Nodes, tasks, GPUs and CPUs of a job and of its steps; None for what the text does not determine."""

import re
from typing import NamedTuple

from slurmgen.lint.reader.header import Header
from slurmgen.lint.reader.launch import Launch, Options
from slurmgen.lint.reader.words import Value


class Shape(NamedTuple):
    """The size of a job or a step."""

    nodes: int | None = None
    ntasks_per_node: int | None = None
    cpus_per_task: int | None = None
    gpus_per_node: int | None = None
    has_gpus: bool = False
    "Whether it requests GPUs."
    gpu_type: str | None = None
    visible_gpus: int | None = None
    "GPUs that each task of a step sees."

    @property
    def ntasks(self) -> int | None:
        """Total number of tasks."""
        return _times(self.nodes, self.ntasks_per_node)

    @property
    def least_tasks(self) -> int:
        """The number of tasks, as far as it is known."""
        return self.ntasks or (self.nodes or 1) * (self.ntasks_per_node or 1)

    @property
    def gpus(self) -> int | None:
        """Total number of GPUs."""
        return _times(self.nodes, self.gpus_per_node)


_TASKS = ("ntasks-per-node", "tasks-per-node")
_UNSURE_TASKS = ("ntasks-per-socket", "ntasks-per-core", "nodefile")
_GPU_OPTIONS = ("gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket", "tres-per-task")


def header_shape(header: Header) -> Shape:
    """The request of the header; empty for a heterogeneous job, which has several."""
    if header.components > 1:
        return Shape(has_gpus=any(header.last(name) for name in _GPU_OPTIONS))
    options = _with_tres({d.name: d.value for d in header.directives})
    nodes = _nodes(options)
    tasks = _tasks_per_node(options, nodes)
    has_gpus = any(name in options for name in _GPU_OPTIONS if name != "gres")
    has_gpus = has_gpus or "gpu" in options.get("gres", "")
    per_node, kind = _gpus_per_node(options, nodes, tasks)
    return Shape(nodes, tasks, _number(options.get("cpus-per-task")), per_node, has_gpus, kind)


def _with_tres(options: dict[str, str]) -> dict[str, str]:
    """The options, with those that `--tres-per-task=cpu:8,gres/gpu:1` stands for."""
    for item in options.get("tres-per-task", "").split(","):
        name, _, count = re.sub("[=:]", " ", item).partition(" ")
        meant = {"cpu": "cpus-per-task", "gres/gpu": "gpus-per-task"}.get(name)
        if meant and count:
            options = {meant: count.replace(" ", ":"), **options}
    return options


def _nodes(options: dict[str, str]) -> int | None:
    tasks = _number(options.get("ntasks"))
    if "nodes" in options:
        low, dash, high = options["nodes"].partition("-")
        nodes = _number(low) if not dash or low == high else None
        # sbatch reduces the nodes to the tasks.
        return min(nodes, tasks) if nodes and tasks else nodes
    each = next((_number(options[name]) for name in _TASKS if name in options), None)
    if tasks and each and not {"nodelist", "nodefile", "gpus", "ntasks-per-gpu"} & options.keys():
        return -(-tasks // each)
    counted = {"gpus", "ntasks", "nodelist", "nodefile", "gpus-per-task", "ntasks-per-gpu"} & options.keys()
    if counted == {"gpus"} and _gpu_count(options["gpus"])[0] == 1:
        return 1
    if options.get("ntasks") == "1" and counted == {"ntasks"}:
        return 1
    return 1 if not counted and {"gres", "gpus-per-node", *_TASKS} & options.keys() else None


def _tasks_per_node(options: dict[str, str], nodes: int | None) -> int | None:
    if any(name in options for name in _UNSURE_TASKS):
        return None
    each = next((_number(options[name]) for name in _TASKS if name in options), None)
    total = _number(options.get("ntasks"))
    if "ntasks" not in options:
        if "ntasks-per-gpu" in options:
            gpus = _gpus_per_node({**options, "ntasks-per-gpu": ""}, nodes, None)[0]
            return None if each else _times(_number(options["ntasks-per-gpu"]), gpus)
        return each if any(name in options for name in _TASKS) else _one_task(options, nodes)
    if total is None or not nodes or total % nodes or "ntasks-per-gpu" in options:
        return None
    # Beside a total, --ntasks-per-node is only a limit (sbatch(1)).
    return total // nodes if each is None or total // nodes <= each else None


def _one_task(options: dict[str, str], nodes: int | None) -> int | None:
    """By default Slurm starts one task on each node, unless GPUs are requested per task."""
    return 1 if nodes and "gpus-per-task" not in options else None


def _gpus_per_node(
    options: dict[str, str], nodes: int | None, tasks: int | None
) -> tuple[int | None, str | None]:
    total, kind = _gpu_count(options.get("gpus"))
    each_task, task_kind = _gpu_count(options.get("gpus-per-task"))
    candidates = [
        _gpu_gres(options.get("gres", "")),
        _gpu_count(options.get("gpus-per-node")),
        (total // nodes if total and nodes and not total % nodes else None, kind),
        (_times(each_task, tasks), task_kind),
    ]
    counts = {count for count, _ in candidates if count is not None}
    kinds = [name for _, name in candidates if name]
    return (counts.pop() if len(counts) == 1 else None), (kinds[0] if kinds else None)


def _gpu_count(value: str | None) -> tuple[int | None, str | None]:
    """The number in `4` or `a100:4`; None for several types."""
    kind, _, count = (value or "").rpartition(":")
    return (_number(count), kind or None) if "," not in (value or "") else (None, None)


def _gpu_gres(value: str) -> tuple[int | None, str | None]:
    """The number of GPUs in a list of generic resources: `gpu`, `gpu:2`, `gpu:a100`, `gpu:a100:2`."""
    items = [item.split("(")[0].split(":") for item in re.split(r",(?![^(]*\))", value)]
    gpus = [item for item in items if item[0] in ("gpu", "gres/gpu")]
    if len(gpus) != 1 or len(gpus[0]) > 3 or "$" in value:
        return None, None
    if len(gpus[0]) == 3:  # the type may be a number, as 3090
        return _number(gpus[0][2]), gpus[0][1]
    numbers = [_number(part) for part in gpus[0][1:]]
    count = next((number for number in numbers if number is not None), 1 if len(numbers) < 2 else None)
    return count, next((part for part in gpus[0][1:] if _number(part) is None), None)


def step_shape(job: Shape, header: Header, launch: Launch) -> Shape:
    """The shape of a launch: that of the job, unless the options of its srun change it."""
    step = launch.step
    if step is None:
        # With --exclusive, the batch shell has all GPUs of its node; a step has those that were requested.
        gpus = None if header.last("exclusive") else job.gpus_per_node
        return job._replace(nodes=1, ntasks_per_node=1, gpus_per_node=gpus)
    options = step.options
    given = _with_tres({name: one.value for name, one in options.given.items()})
    nodes = _step_nodes(options, job, header)
    cpus = _number(given["cpus-per-task"]) if "cpus-per-task" in given else job.cpus_per_task
    tasks = _step_tasks(options, job, header, nodes)
    has_own = any(name in given for name in _GPU_OPTIONS)
    gpus = _gpus_per_node(given, nodes, tasks)[0] if has_own else job.gpus_per_node
    size = job._replace(nodes=nodes, ntasks_per_node=tasks, cpus_per_task=cpus, gpus_per_node=gpus)
    return size._replace(visible_gpus=None if options.open else _visible_gpus(size, header, given))


_BINDING = ("gpu-bind", "gpus-per-task", "ntasks-per-gpu", "tres-bind", "gres-flags", "gpus-per-socket")
"Options that hide GPUs of a node from some tasks."


def _visible_gpus(step: Shape, header: Header, given: dict[str, str]) -> int | None:
    """The GPUs that each task sees: all of its node, unless an option divides them."""
    asked = _with_tres({d.name: d.value for d in header.directives if d.name in (*_BINDING, "tres-per-task")})
    binding = {**asked, **given}
    found = [name for name in _BINDING if name in binding]
    if not found:
        return step.gpus_per_node
    if (step.ntasks_per_node or 1) < 2:
        return None  # a single task may see all of them
    if found == ["gpus-per-task"]:
        return _gpu_count(binding["gpus-per-task"])[0]
    return 1 if found == ["ntasks-per-gpu"] else None


def _step_nodes(options: Options, job: Shape, header: Header) -> int | None:
    if options.open or "het-group" in options.given:
        return None
    if "nodes" in options.given:
        # srun reduces the nodes to the tasks, which SLURM_NTASKS counts, too.
        tasks = options.number("ntasks") or (job.ntasks if header.last("ntasks") else None)
        nodes = options.number("nodes")
        return min(filter(None, (nodes, tasks, job.nodes))) if nodes else None
    if {"nodelist", "relative", "exclude"} & options.given.keys():
        return None
    if options.number("ntasks") == 1:
        return 1
    return job.nodes


def _step_tasks(options: Options, job: Shape, header: Header, nodes: int | None) -> int | None:
    each = next((options.number(name) for name in _TASKS if name in options.given), None)
    if options.open or any(name in options.given for name in _UNSURE_TASKS):
        return None
    by_gpu = any(header.last(name) or name in options.given for name in ("ntasks-per-gpu", "gpus-per-task"))
    if by_gpu and any(name in options.given for name in ("ntasks", *_TASKS, "ntasks-per-gpu")):
        return None  # srun combines them with the variables of the header in a way that differs by release
    if "ntasks" in options.given:
        total = options.number("ntasks")
        return total // nodes if total and nodes and not total % nodes else None
    if not any(name in options.given for name in _TASKS):
        return job.ntasks_per_node if nodes == job.nodes else None
    # srun also reads SLURM_NTASKS, which is set when the header counts tasks.
    counts_tasks = any(header.last(name) for name in ("ntasks", *_TASKS))
    return each if not counts_tasks or each == job.ntasks_per_node else None


def slurm_variables(header: Header, job: Shape) -> dict[str, Value]:
    """The variables that Slurm sets in the job, if the header determines their values."""
    has_tasks = any(header.last(name) for name in ("ntasks", *_TASKS))
    numbers = {
        "SLURM_NNODES": job.nodes,
        "SLURM_JOB_NUM_NODES": job.nodes,
        "SLURM_NTASKS": job.ntasks if has_tasks else None,
        "SLURM_NPROCS": job.ntasks if has_tasks else None,
        "SLURM_NTASKS_PER_NODE": job.ntasks_per_node if header.last("ntasks-per-node") else None,
        "SLURM_CPUS_PER_TASK": job.cpus_per_task,
        "SLURM_GPUS_ON_NODE": job.gpus_per_node,
        "SLURM_GPUS_PER_NODE": _number(header.value("gpus-per-node")),
        "SLURM_GPUS": _number(header.value("gpus")),
    }
    return {name: str(number) for name, number in numbers.items() if number is not None}


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() and len(text) < 10 else None


def _times(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a * b
