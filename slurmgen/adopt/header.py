"""The fields of a request that the header of a batch script determines."""

from collections.abc import Iterator
from typing import Any

from slurmgen.adopt.facts import SHAPE, cpus_per_task, memory, other_resources, seconds, shape_of
from slurmgen.errors import RequestError
from slurmgen.lint.reader import Script
from slurmgen.lint.reader.header import Directive
from slurmgen.secret_names import Line
from slurmgen.slurm import sbatch_options, units

_FIELDS = {"account": "account", "partition": "partition", "qos": "qos", "job-name": "name"}
_SIZES = SHAPE | {"gres"}
_FROM_COMMANDS = {
    "chdir": "slurmgen runs the job in a folder of its own; write `cd` into `before`",
    "wait": "`slurmgen submit --follow` waits",
    "parsable": "`slurmgen submit` prints the id",
    "test-only": "`slurmgen submit --test-only` does that",
    "wrap": "name a command",
}
_VISIBLE = "every task sees all GPUs of its node, as NCCL needs"


def from_header(script: Script) -> tuple[dict[str, Any], list[Line]]:
    """The fields of a request, and what no field expresses."""
    lost = [_line(script, span.start, "sbatch does not read it") for span in script.header.late]
    lost += [_line(script, one.span.start, one.why) for one in script.header.broken]
    lost += [_line(script, span.start, "it is not an option") for span in script.header.strays]
    values: dict[str, Any] = _sizes(script)
    options: dict[str, str | bool] = {key: False for key, there in _left_out(script).items() if not there}
    for directive in _last(script):
        value = other_resources(directive.value) if directive.name == "gres" else directive.value
        if directive.name in _SIZES and not (directive.name == "gres" and value):
            continue
        if directive.name in _FIELDS:
            values[_FIELDS[directive.name]] = value.replace(", ", ",")
        elif why := _refusal(directive.name, value):
            lost.append(_line(script, directive.span.start, why))
        else:
            options[directive.name] = value or True
    if options:
        values["sbatch"] = options
    return values, lost + list(_unclear(script, values))


def _last(script: Script) -> Iterator[Directive]:
    """The directive of each name that applies."""
    for directive in script.header.directives:
        if script.header.last(directive.name) is directive:
            yield directive


def _refusal(name: str, value: str) -> str:
    """Why `sbatch` of a request does not take an option; empty if it does."""
    if name in _FROM_COMMANDS:
        return _FROM_COMMANDS[name]
    try:
        sbatch_options.checked(name, value)
    except RequestError as error:
        return error.fact
    return ""


def _left_out(script: Script) -> dict[str, bool]:
    """Whether the header has CPUs, memory and time."""
    return {
        "cpus-per-task": cpus_per_task(script) is not None,
        "mem": memory(script) is not None,
        "time": bool(script.header.value("time")),
        "nodes": not may_leave_out_nodes(script),
    }


def may_leave_out_nodes(script: Script) -> bool:
    """Whether a header counts tasks and GPUs of a node, and leaves the nodes to Slurm."""
    shape = shape_of(script)
    counts = script.header.last("ntasks") and shape.gpus_per_node
    return bool(counts and not shape.nodes and not script.header.last("nodes"))


def _sizes(script: Script) -> dict[str, Any]:
    shape, limit = shape_of(script), seconds(script.header.value("time"))
    cpus, mem = cpus_per_task(script), memory(script)
    found = {
        "nodes": shape.nodes,
        "gpus": (shape.gpus or shape.gpus_per_node) if shape.has_gpus else 0,
        "gpu_type": shape.gpu_type,
        "cpus": cpus if isinstance(cpus, int) and cpus else None,
        "mem": units.canonical_size(mem) if isinstance(mem, int) and mem else "0" if mem == 0 else None,
        "time": units.canonical_time(limit) if isinstance(limit, int) and limit else None,
    }
    return {key: value for key, value in found.items() if value is not None}


def _unclear(script: Script, values: dict[str, Any]) -> Iterator[Line]:
    """The options of sizes that the fields do not express."""
    header = script.header
    values = {**values, "nodes": 1} if may_leave_out_nodes(script) else values
    found = {
        "nodes": (("nodes", "ntasks", "ntasks-per-node"), "nodes", "the number of nodes is not determined"),
        "gpus": (("gres", "gpus", "gpus-per-node", "gpus-per-task"), "gpus", "it is not a number of GPUs"),
        "cpus": (("cpus-per-task", "cpus-per-gpu"), "cpus", "it is not a number of CPUs"),
        "mem": (("mem", "mem-per-cpu", "mem-per-gpu"), "mem", "it is not a whole number with M, G or T"),
        "time": (("time",), "time", "it is not a time limit that slurmgen takes"),
    }
    for names, field, why in found.values():
        for name in names:
            if (directive := header.last(name)) and field not in values:
                yield _line(script, directive.span.start, why)
    if header.last("gpus-per-task"):
        yield _line(script, header.last("gpus-per-task").span.start, _VISIBLE)  # type: ignore[union-attr]
    if header.components > 1:
        yield _line(script, 0, "a heterogeneous job has several requests")


def _line(script: Script, offset: int, why: str) -> Line:
    number = script.source.position(offset).line
    return Line(number, script.source.line(number).strip(), why)
