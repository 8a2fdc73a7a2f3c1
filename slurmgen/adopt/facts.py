"""What the header of a batch script requests, without its spelling: two headers are compared by their facts.

`--gres=gpu:4`, `--gpus-per-node=4` and, on one node, `--gpus=4` are one fact; so are `--ntasks=8` and
`--ntasks-per-node=4` on two nodes, memory per node, CPU and GPU, and times of any form.
"""

import re
from typing import NamedTuple

from slurmgen.lint.reader import Script, Shape
from slurmgen.lint.reader.header import Header
from slurmgen.slurm import units

Fact = str | int | None
Facts = dict[str, Fact]
SHAPE = frozenset(
    """
    nodes ntasks ntasks-per-node tasks-per-node gpus gpus-per-node gpus-per-task cpus-per-task cpus-per-gpu
    mem mem-per-cpu mem-per-gpu time
    """.split()
)
"Options that make the facts of the shape; every other option is a fact of its own."
CHOSEN = frozenset(("job-name", "output"))
"Facts that slurmgen chooses where a script leaves them to Slurm."


class Difference(NamedTuple):
    """A fact that differs between two headers; None where a header does not have it."""

    name: str
    old: Fact
    new: Fact


def facts(script: Script) -> Facts:
    """The facts of a header; the last option of a name counts."""
    header, shape = script.header, shape_of(script)
    own = {d.name: _value(d.name, d.value) for d in header.directives if d.name not in SHAPE}
    other = other_resources(header.value("gres"))
    own = {name: value for name, value in own.items() if name != "gres"}
    return own | ({"gres": other} if other else {}) | _sizes(script) | {"gpu type": shape.gpu_type}


def differences(old: Facts, new: Facts) -> tuple[Difference, ...]:
    """The facts that differ, without those that slurmgen chooses for a script that leaves them open."""
    names = [name for name in {**old, **new} if name in old or name not in CHOSEN]
    return tuple(Difference(n, old.get(n), new.get(n)) for n in names if old.get(n) != new.get(n))


def _value(name: str, value: str) -> Fact:
    if name in ("mail-type", "requeue"):
        return value.upper()
    return value.replace(" ", "") if name in ("partition", "constraint") else value


def other_resources(gres: str | None) -> str:
    """The generic resources that are not GPUs."""
    return ",".join(item for item in (gres or "").split(",") if item and not is_gpu(item))


def is_gpu(item: str) -> bool:
    """Whether one generic resource is a GPU."""
    return item.removeprefix("gres/").partition(":")[0] == "gpu"


def shape_of(script: Script) -> Shape:
    """The sizes of a job, as far as its header determines them; a single task has a single node."""
    header, shape = script.header, script.job
    total, each = _number(header.value("ntasks")), header.value("ntasks-per-node")
    nodes = shape.nodes or _nodes(script)
    tasks = shape.ntasks_per_node
    if tasks is None and nodes:
        tasks = total // nodes if total and not total % nodes else None if total else _number(each or "1")
    gpus = shape.gpus_per_node
    if gpus is None and nodes and (all_gpus := gpu_count(header.value("gpus"))):
        gpus = all_gpus // nodes
    if gpus is None and tasks and (of_task := gpu_count(header.value("gpus-per-task"))):
        gpus = tasks * of_task
    return shape._replace(nodes=nodes, ntasks_per_node=tasks, gpus_per_node=gpus)


def _nodes(script: Script) -> int | None:
    """The nodes of a header that names none."""
    header = script.header
    if header.last("nodes") or header.components > 1:
        return None
    if header.value("ntasks") == "1":
        return 1
    total, of_node = gpu_count(header.value("gpus")), gpu_count(header.value("gpus-per-node"))
    if total and of_node and not total % of_node:
        return total // of_node
    names = header.value("nodelist") or ""
    few = not header.last("ntasks") and not total and not re.search(r"[,\[]", names)
    return 1 if few else None


def gpu_count(text: str | None) -> int | None:
    """The number of `4` or `a100:4`."""
    return _number((text or "").rpartition(":")[2])


def _number(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch("[0-9]{1,9}", text) else None


def _sizes(script: Script) -> Facts:
    header, shape = script.header, shape_of(script)
    cpus = cpus_per_task(script)
    found: Facts = {
        "nodes": shape.nodes or header.value("nodes"),
        "tasks": None if shape.nodes else _number(header.value("ntasks")),
        "tasks per node": shape.ntasks_per_node,
        "GPUs per node": shape.gpus_per_node
        or _text(header, "gres", "gpus", "gpus-per-node", "gpus-per-task"),
        "CPUs per task": cpus,
        "memory of a node": memory(script),
        "time": seconds(header.value("time")),
    }
    return {name: value for name, value in found.items() if value is not None}


def _text(header: Header, *names: str) -> str:
    """The options that do not determine a number, as they are written."""
    return " ".join(f"--{name}={value}" for name in names if (value := header.value(name)))


def cpus_per_task(script: Script) -> int | str | None:
    """CPUs of a task; the text of an option that is not a number; None if the header leaves it to Slurm."""
    per_task, per_gpu = script.header.value("cpus-per-task"), script.header.value("cpus-per-gpu")
    if per_task is not None:
        return int(per_task) if per_task.isdigit() else per_task
    shape = shape_of(script)
    gpus, tasks = shape.gpus_per_node, shape.ntasks_per_node
    if per_gpu and per_gpu.isdigit() and gpus and tasks and not int(per_gpu) * gpus % tasks:
        return int(per_gpu) * gpus // tasks
    return per_gpu


def memory(script: Script) -> int | str | None:
    """MiB of a node; the text of an option that does not determine them; None if there is none."""
    header, shape = script.header, shape_of(script)
    name = next((n for n in ("mem", "mem-per-gpu", "mem-per-cpu") if header.last(n)), None)
    if name is None:
        return None
    text = header.value(name) or ""
    cpus = cpus_per_task(script)
    of_node = (shape.ntasks_per_node or 0) * (1 if cpus is None else cpus if isinstance(cpus, int) else 0)
    count = {"mem": 1, "mem-per-gpu": shape.gpus_per_node, "mem-per-cpu": of_node}[name]
    try:
        return units.megabytes(text) * count if count else f"{name}={text}"
    except ValueError:
        return f"{name}={text}"


def seconds(text: str | None) -> int | str | None:
    """Seconds of a time limit; the text if it is none."""
    try:
        return units.seconds(text) if text else None
    except ValueError:
        return text
