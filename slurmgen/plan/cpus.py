"""CPUs of a job: from the request, else the site, else a default; with the reason."""

from math import gcd

from msgspec import Struct

from slurmgen.errors import RequestError, contradiction
from slurmgen.field_names import option
from slurmgen.hints import ask_for, leave_it_out, leave_out
from slurmgen.launchers import Launcher, Layout
from slurmgen.plan.inputs import Inputs
from slurmgen.plan.reasons import NO_FACT, PROFILE, Reason, default, derived, first, from_profile
from slurmgen.request import Request
from slurmgen.sites.model import Node, Site
from slurmgen.sites.nodes import Place, gives_whole_nodes
from slurmgen.text import counted

DEFAULT_CPUS_PER_GPU = 4
DEFAULT_CPUS = 4


class Cpus(Struct, frozen=True):
    """CPUs of a rank, a task and a node."""

    per_rank: int
    per_task: int
    per_node: int
    why: Reason


def cpus(inputs: Inputs, launcher: Launcher, layout: Layout, place: Place) -> Cpus:
    """CPUs for each task.

    Raises:
        RequestError: not a multiple of what the site allocates, or more than a node has.
    """
    request, site, _ = inputs
    node = place.node
    if not layout.gpus:
        return _cpus_without_gpus(inputs, place)
    own = launcher.ntasks_per_node(layout.gpus_per_node)
    if request.cpus or request.ntasks_per_node not in (None, own):
        return _cpus_of_tasks(inputs, launcher, layout, node)
    per_gpu, source = _per_gpu(inputs, node)
    gpus = launcher.gpus_per_task(layout.gpus_per_node)
    _check_multiple(site, per_gpu, gpus)
    _check_node(site, per_gpu, layout.gpus_per_node, node)
    procs = launcher.procs_per_task(layout.gpus_per_node)
    unit = "ranks" if procs > 1 else "GPUs"
    share = f" x {gpus} {unit} per task" if gpus > 1 else ""
    why = source.within(f"{counted(per_gpu, 'CPU')} per GPU ({{}}){share}")
    return Cpus(per_gpu * gpus // procs, per_gpu * gpus, per_gpu * layout.gpus_per_node, why)


def _per_gpu(inputs: Inputs, node: Node) -> tuple[int, Reason]:
    """CPUs of a GPU."""
    request, site, origin = inputs
    if site.cpu.exact and request.cpus_per_gpu not in (None, site.cpu.per_gpu):
        raise RequestError(
            f"{option('cpus_per_gpu', request.cpus_per_gpu)}, "
            f"but {site.name} allows exactly {site.cpu.per_gpu}",
            leave_out("cpus_per_gpu"),
        )
    return first(
        (request.cpus_per_gpu, origin("cpus_per_gpu")),
        (node.cpus_per_gpu, from_profile(site, "node.cpus_per_gpu")),
        (site.cpu.per_gpu, from_profile(site, "cpu.per_gpu")),
        (share_of_gpu(node.cpus, node.gpus, site.cpu.multiple_of), derived("a GPU's share of a node")),
        (DEFAULT_CPUS_PER_GPU, NO_FACT),
    )


def _cpus_of_tasks(inputs: Inputs, launcher: Launcher, layout: Layout, node: Node) -> Cpus:
    """CPUs of a job with GPUs that names those of each task, or other tasks than those of the launcher."""
    request, site, _ = inputs
    if request.cpus and request.cpus_per_gpu:
        raise contradiction(option("cpus"), option("cpus_per_gpu"))
    own = launcher.ntasks_per_node(layout.gpus_per_node)
    reserved = request.ntasks_per_node or own
    each, why = _each(inputs, layout, node, reserved)
    tasks = reserved if launcher.any_tasks else own
    per_node = each * reserved
    if node.cpus and per_node > node.cpus:
        raise RequestError(
            f"the job needs {per_node} CPUs per node, but a node of {site.name} has {node.cpus}",
            ask_for("cpus", max(node.cpus // reserved, 1), bound="at most"),
        )
    _check_exact(request, site, per_node, layout.gpus_per_node)
    per_task = max(per_node // tasks, 1)
    per_rank = max(per_task // launcher.procs_per_task(layout.gpus_per_node), 1)
    return Cpus(per_rank, per_task, per_node, why)


def _each(inputs: Inputs, layout: Layout, node: Node, tasks: int) -> tuple[int, Reason]:
    """CPUs of each of the tasks that a node reserves: as requested, or their share of those of its GPUs."""
    request, site, origin = inputs
    multiple = site.cpu.multiple_of
    if request.cpus and request.cpus % multiple:
        raise RequestError(
            f"{option('cpus', request.cpus)}: {site.name} allocates CPUs in multiples of {multiple}",
            leave_it_out("cpus", text=f"Leave {option('cpus')} out, or ask for a multiple."),
        )
    if request.cpus:
        return request.cpus, origin("cpus")
    per_gpu, source = _per_gpu(inputs, node)
    share = per_gpu * layout.gpus_per_node // tasks // multiple * multiple or multiple
    gpus = counted(layout.gpus_per_node, "GPU")
    form = f"{counted(per_gpu, 'CPU')} per GPU ({{}}) x {gpus}, divided among {counted(tasks, 'task')}"
    return share, source.within(form)


def _check_exact(request: Request, site: Site, per_node: int, gpus: int) -> None:
    """Refuse another number of CPUs of a node than the site allows for so many GPUs."""
    if site.cpu.exact and per_node != (site.cpu.per_gpu or 0) * gpus:
        named = [field for field in ("cpus", "ntasks_per_node") if getattr(request, field)]
        raise RequestError(
            f"{counted(per_node, 'CPU')} for {counted(gpus, 'GPU')} of a node, "
            f"but {site.name} allows exactly {site.cpu.per_gpu} for each",
            leave_out(*named),
        )


def _check_multiple(site: Site, per_gpu: int, gpus: int) -> None:
    """Refuse a number of CPUs of a task with so many GPUs that the site does not allocate."""
    multiple, per_task = site.cpu.multiple_of, per_gpu * gpus
    if per_task % multiple:
        step = multiple // gcd(multiple, gpus)
        below = per_gpu // step * step
        choices = [str(count) for count in (below, below + step) if count]
        raise RequestError(
            f"{counted(per_task, 'CPU')} per task: {site.name} allocates CPUs in multiples of {multiple}",
            ask_for("cpus_per_gpu", *choices),
        )


def _check_node(site: Site, per_gpu: int, gpus: int, node: Node) -> None:
    """Refuse more CPUs than a node has, of which the job uses so many GPUs."""
    if node.cpus and per_gpu * gpus > node.cpus:
        raise RequestError(
            f"the job needs {per_gpu * gpus} CPUs per node, but a node of {site.name} has {node.cpus}",
            ask_for("cpus_per_gpu", node.cpus // gpus, bound="at most")
            if node.cpus >= gpus
            else "Ask for fewer GPUs on each node.",
            "cpus_per_gpu" if node.cpus >= gpus else "gpus",
        )


def _cpus_without_gpus(inputs: Inputs, place: Place) -> Cpus:
    """CPUs of the only task of each node: all of them where a job gets whole nodes."""
    request, site, origin = inputs
    multiple, node = site.cpu.multiple_of, place.node
    of_node = node.cpus if gives_whole_nodes(site, place) else None
    usual = -(-DEFAULT_CPUS // multiple) * multiple
    count, source = first(
        (request.cpus, origin("cpus")),
        (of_node, Reason(PROFILE, "all of a node, since jobs get whole nodes")),
        (usual, default("slurmgen's default for a job without GPUs")),
    )
    if count % multiple:
        raise RequestError(
            f"{counted(count, 'CPU')}: {site.name} allocates CPUs in multiples of {multiple}",
            ask_for("cpus", count // multiple * multiple + multiple),
        )
    if node.cpus and count > node.cpus:
        raise RequestError(
            f"{option('cpus', count)}, but a node of {site.name} has {node.cpus}",
            ask_for("cpus", node.cpus, bound="at most"),
        )
    return Cpus(count, count, count, source)


def cpus_of_next(job: Cpus, launcher: Launcher, layout: Layout, tasks: int) -> Cpus:
    """CPUs of a further step, whose tasks divide those that the job has on a node.

    Raises:
        RequestError: there are fewer CPUs than tasks.
    """
    if job.per_node < tasks:
        raise RequestError(
            f"then: {launcher.name} starts {counted(tasks, 'task')} on a node, "
            f"where the job has {counted(job.per_node, 'CPU')}",
            f"Ask for more {option('cpus')}, or use another framework for the step.",
            "then",
        )
    per_task = job.per_node // tasks
    per_rank = max(per_task // launcher.procs_per_task(layout.gpus_per_node), 1)
    return Cpus(per_rank, per_task, job.per_node, job.why)


def share_of_gpu(total: int | None, gpus: int | None, multiple: int) -> int | None:
    """A GPU's share of a node, rounded down to a multiple; None if it is unknown or zero."""
    return (total // gpus // multiple * multiple or None) if total and gpus else None
