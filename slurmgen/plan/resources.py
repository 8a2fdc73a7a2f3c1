"""A job's resources: layout, CPUs, memory, time and charge."""

from math import gcd

from slurmgen.errors import (
    Hint,
    LimitExceeded,
    RequestError,
    ask_for,
    cleared,
    contradiction,
    leave_it_out,
    leave_out,
    offered,
    option,
    phrased,
)
from slurmgen.launchers import LAUNCHERS, Launcher, Layout
from slurmgen.plan.model import (
    NO_FACT,
    PROFILE,
    Cpus,
    Inputs,
    Plan,
    Reason,
    Reasoned,
    default,
    derived,
    first,
    from_profile,
)
from slurmgen.request.model import Request
from slurmgen.sites.model import Charge, GpuRequest, Limits, Node, Site
from slurmgen.sites.nodes import Place, gives_whole_nodes
from slurmgen.slurm import sbatch_options, units
from slurmgen.slurm.sbatch_options import leaves_out
from slurmgen.text import counted


def charge(plan: Plan) -> str | None:
    """The largest charge of a job, all its tasks included, such as `24 SU`; None without a rate.

    Whole nodes count where the site charges by node.
    """
    site, layout = plan.profile, plan.ranks.layout
    if site.charge is None or not (layout.gpus or site.charge.per == "node"):
        return None
    count = layout.nodes if site.charge.per == "node" else layout.gpus
    amount = count * _rate(site.charge, plan.place) * plan.time_seconds * plan.tasks / 3600
    return f"{amount:g} {site.charge.unit}"


def _rate(of_site: Charge, place: Place) -> float:
    """The rate of a job; of several partitions, the highest, since Slurm chooses one."""
    if place.qos in of_site.rates:
        return of_site.rates[place.qos]
    usual = of_site.rates.get(place.gpu_type or "", of_site.rate)
    return max((of_site.rates.get(name, usual) for name in place.partitions), default=usual)


DEFAULT_CPUS_PER_GPU = 4
DEFAULT_CPUS = 4


def cpus(inputs: Inputs, launcher: Launcher, layout: Layout, place: Place) -> Cpus:
    """CPUs for each task."""
    own = launcher.ntasks_per_node(layout.gpus_per_node)
    tasks = inputs.request.ntasks_per_node or own
    if not layout.gpus:
        found, field, parts = _cpus_without_gpus(inputs, layout, place), "cpus", layout.nodes
    elif inputs.request.cpus or tasks != own:
        found, field, parts = _cpus_of_tasks(inputs, launcher, layout, place), "cpus", layout.nodes * tasks
    else:
        found, field, parts = _cpus_of_gpus(inputs, launcher, layout, place), "cpus_per_gpu", layout.gpus
    _check_total(place, found.per_node * layout.nodes, field, parts)
    return found


def _check_total(place: Place, total: int, field: str, parts: int) -> None:
    """Refuse a job with more CPUs in total than it may have; `field` sets the CPUs of each part."""
    limit = _most(place, "max_cpus")
    if limit and total > limit[0]:
        most, name = limit
        raise LimitExceeded(
            f"{counted(total, 'CPU')} exceed the limit of {name}: {most} per job",
            ask_for(field, most // parts, bound="at most")
            if most >= parts
            else "Ask for fewer GPUs or nodes.",
            field,
        )


def _most(place: Place, field: str) -> tuple[int, str] | None:
    """The CPUs, or the memory in MiB, that a job may have, and what limits it."""
    stated = {name: getattr(limits, field) for name, limits in place.limits.items()}
    read = units.megabytes if field == "max_memory" else int
    return min(((read(value), name) for name, value in stated.items() if value), default=None)


def _cpus_of_gpus(inputs: Inputs, launcher: Launcher, layout: Layout, place: Place) -> Cpus:
    site, node = inputs.site, place.node
    per_gpu, source = _per_gpu(inputs, place, layout)
    gpus = launcher.gpus_per_task(layout.gpus_per_node)
    _check_multiple(site, per_gpu, gpus)
    _check_node(site, per_gpu, layout.gpus_per_node, node)
    procs = launcher.procs_per_task(layout.gpus_per_node)
    unit = "ranks" if procs > 1 else "GPUs"
    share = f" x {gpus} {unit} per task" if gpus > 1 else ""
    why = source.within(f"{counted(per_gpu, 'CPU')} per GPU ({{}}){share}")
    return Cpus(per_gpu * gpus // procs, per_gpu * gpus, per_gpu * layout.gpus_per_node, why)


def _per_gpu(inputs: Inputs, place: Place, layout: Layout) -> tuple[int, Reason]:
    request, site, origin = inputs
    node, limit = place.node, _most(place, "max_cpus")
    if site.cpu.exact and request.cpus_per_gpu not in (None, site.cpu.per_gpu):
        raise RequestError(
            f"{option('cpus_per_gpu', request.cpus_per_gpu)}, "
            f"but {site.name} allows exactly {site.cpu.per_gpu}",
            leave_out("cpus_per_gpu"),
        )
    count, why = first(
        (request.cpus_per_gpu, origin("cpus_per_gpu")),
        (node.cpus_per_gpu, from_profile(site, "node.cpus_per_gpu")),
        (site.cpu.per_gpu, from_profile(site, "cpu.per_gpu")),
        (share_of_gpu(node.cpus, node.gpus, site.cpu.multiple_of), derived("a GPU's share of a node")),
        (DEFAULT_CPUS_PER_GPU, NO_FACT),
    )
    if limit and not (request.cpus_per_gpu or site.cpu.exact) and count * layout.gpus > limit[0]:
        share = share_of_gpu(limit[0], layout.gpus, site.cpu.multiple_of)
        return share or count, Reason(PROFILE, f"the limit of {limit[1]}")
    return count, why


def _cpus_of_tasks(inputs: Inputs, launcher: Launcher, layout: Layout, place: Place) -> Cpus:
    """CPUs of a job with GPUs that sets the CPUs of each task, or its own number of tasks."""
    request, site, _ = inputs
    node = place.node
    if request.cpus and request.cpus_per_gpu:
        raise contradiction(option("cpus"), option("cpus_per_gpu"))
    own = launcher.ntasks_per_node(layout.gpus_per_node)
    reserved = request.ntasks_per_node or own
    each, why = _each(inputs, layout, place, reserved)
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


def _each(inputs: Inputs, layout: Layout, place: Place, tasks: int) -> tuple[int, Reason]:
    """CPUs of each task that a node reserves: as requested, or its share of the CPUs of its GPUs."""
    request, site, origin = inputs
    multiple = site.cpu.multiple_of
    if request.cpus and request.cpus % multiple:
        raise RequestError(
            f"{option('cpus', request.cpus)}: {site.name} allocates CPUs in multiples of {multiple}",
            leave_it_out("cpus", text=f"Leave {option('cpus')} out, or ask for a multiple."),
        )
    if request.cpus:
        return request.cpus, origin("cpus")
    per_gpu, source = _per_gpu(inputs, place, layout)
    share = per_gpu * layout.gpus_per_node // tasks // multiple * multiple or multiple
    gpus = counted(layout.gpus_per_node, "GPU")
    form = f"{counted(per_gpu, 'CPU')} per GPU ({{}}) x {gpus}, divided among {counted(tasks, 'task')}"
    return share, source.within(form)


def _check_exact(request: Request, site: Site, per_node: int, gpus: int) -> None:
    if site.cpu.exact and per_node != (site.cpu.per_gpu or 0) * gpus:
        named = [field for field in ("cpus", "ntasks_per_node") if getattr(request, field)]
        raise RequestError(
            f"{counted(per_node, 'CPU')} for {counted(gpus, 'GPU')} of a node, "
            f"but {site.name} allows exactly {site.cpu.per_gpu} for each",
            leave_out(*named),
        )


def _check_multiple(site: Site, per_gpu: int, gpus: int) -> None:
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
    if node.cpus and per_gpu * gpus > node.cpus:
        raise RequestError(
            f"the job needs {per_gpu * gpus} CPUs per node, but a node of {site.name} has {node.cpus}",
            ask_for("cpus_per_gpu", node.cpus // gpus, bound="at most")
            if node.cpus >= gpus
            else "Ask for fewer GPUs on each node.",
            "cpus_per_gpu" if node.cpus >= gpus else "gpus",
        )


def _cpus_without_gpus(inputs: Inputs, layout: Layout, place: Place) -> Cpus:
    """CPUs of the only task of each node: all of them where a job gets whole nodes."""
    request, site, origin = inputs
    multiple, node, limit = site.cpu.multiple_of, place.node, _most(place, "max_cpus")
    of_node = node.cpus if gives_whole_nodes(site, place) else None
    usual = -(-DEFAULT_CPUS // multiple) * multiple
    count, source = first(
        (request.cpus, origin("cpus")),
        (of_node, Reason(PROFILE, "all of a node, since jobs get whole nodes")),
        (usual, default("slurmgen's default for a job without GPUs")),
    )
    if limit and not request.cpus and count * layout.nodes > limit[0]:
        count = share_of_gpu(limit[0], layout.nodes, multiple) or count
        source = Reason(PROFILE, f"the limit of {limit[1]}")
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
    """CPUs of a further step, whose tasks divide those that the job has on a node."""
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


def gpu_directive(
    form: GpuRequest, gpu_type: str | None, layout: Layout, others: str = ""
) -> tuple[tuple[str, str], ...]:
    """The GPUs in the form that the site requires: per node or, on one node, of the whole job;
    empty where the site refuses it. `others` are further generic resources, as in --gres.

    On several nodes `--gpus` lets Slurm spread them unevenly (seen on 22.05: three and one).
    """
    more = (sbatch_options.checked("gres", others),) if others else ()
    if form == "none" or not layout.gpus:
        return more
    if form == "gpus" and layout.nodes > 1:
        form = "gpus-per-node"
    kind = f"{gpu_type}:" if gpu_type else ""
    forms = {
        "gres": f"gpu:{kind}{layout.gpus_per_node}",
        "gpus-per-node": f"{kind}{layout.gpus_per_node}",
        "gpus": f"{kind}{layout.gpus}",
    }
    if form == "gres" and others:
        return (("gres", f"{forms[form]},{others}"),)
    return ((form, forms[form]), *more)


def mem_directive(site: Site, mem: str | None, layout: Layout, cpus: int) -> tuple[tuple[str, str], ...]:
    """The memory of a node with so many CPUs in the form that the site requires; empty where it allows none.

    Divided memory is rounded down, so that the sum fits the node.
    """
    if mem is None:
        return ()
    if site.memory.form in ("mem", "optional") or (site.memory.form == "mem-per-gpu" and not layout.gpus):
        return (("mem", mem),)
    shares = {
        "mem-per-gpu": layout.gpus_per_node,
        "mem-per-cpu": cpus,
    }
    share = shares[site.memory.form]
    part = units.megabytes(mem) // share
    if not part:
        shared = "GPUs" if site.memory.form == "mem-per-gpu" else "CPUs"
        raise RequestError(
            f"{option('mem', mem)} per node is less than 1M for each of {share} {shared}, "
            f"as {site.name} requires",
            ask_for("mem", f"{share}M", bound="at least"),
        )
    return ((site.memory.form, units.canonical_size(part)),)


WITHOUT_GPUS = tuple(name for name, one in LAUNCHERS.items() if one.shape == "process-per-node")
"The launchers of jobs without GPUs."
MOST_GPUS_PER_NODE = 128
"More than any node has, even with each GPU divided by MIG."


def check_shape(launcher: Launcher, layout: Layout) -> None:
    """Refuse a launcher that cannot start on so many nodes, or without GPUs."""
    if not layout.gpus and launcher.name not in WITHOUT_GPUS:
        raise RequestError(
            f"{launcher.name} starts one rank per GPU, and {option('gpus', 0)} requests none",
            Hint(
                f"Use {option('framework', ' or '.join(WITHOUT_GPUS))}, or leave {option('gpus', 0)} out.",
                (*offered("framework", *WITHOUT_GPUS), *cleared("gpus")),
            ),
        )
    most = launcher.max_nodes
    if most and layout.nodes > most:
        idle = f"{layout.nodes - most} of {layout.nodes} nodes"
        known = WITHOUT_GPUS if not layout.gpus else tuple(LAUNCHERS)
        others = [name for name in known if LAUNCHERS[name].max_nodes is None]
        raise RequestError(
            f"{launcher.name} starts one process, so {idle} would idle",
            Hint(
                f"Ask for one node, or for {option('framework', ' or '.join(others[:3]))}.",
                (*offered("nodes", 1), *offered("framework", *others[:3])),
            ),
        )


def lay_out(
    gpus: int, nodes: int | None, per_node: int | None, place: str, nodes_why: Reason
) -> tuple[Layout, Reason]:
    """Spread a job's GPUs over nodes, with the reason for the result.

    Args:
        place: the name of that node in an error.
    """
    if nodes is not None:
        return _over_given_nodes(gpus, nodes, per_node, place, nodes_why)
    if per_node is None:
        _check_one_node(gpus, f"{place} does not say how many GPUs a node has", f"Add {option('nodes')}.")
        why = f"{place} does not say how many GPUs a node has, so all are on one node"
        return Layout(1, gpus), derived(why)
    if gpus <= per_node:
        return Layout(1, gpus), derived(f"a node of {place} has {counted(per_node, 'GPU')}")
    if gpus % per_node:
        raise RequestError(
            f"{gpus} GPUs do not fill whole nodes: a node of {place} has {per_node}",
            _nearest(gpus, per_node),
            "gpus",
        )
    count = gpus // per_node
    return Layout(count, per_node), derived(f"{gpus} GPUs fill {count} nodes of {per_node} on {place}")


def _over_given_nodes(
    gpus: int, nodes: int, per_node: int | None, place: str, nodes_why: Reason
) -> tuple[Layout, Reason]:
    if gpus % nodes:
        raise RequestError(
            f"{counted(gpus, 'GPU')} cannot be divided over {nodes} nodes",
            _divisible(gpus, nodes, per_node),
            "gpus",
        )
    each = gpus // nodes
    if per_node is not None and each > per_node:
        on, most, fewest = counted(nodes, "node"), nodes * per_node, -(-gpus // per_node)
        raise RequestError(
            f"{gpus} GPUs on {on} are {each} per node, but a node of {place} has {per_node}",
            Hint(
                f"Ask for at most {counted(most, 'GPU')}, or for {fewest} nodes or more.",
                (*offered("gpus", most), *offered("nodes", fewest)),
            ),
        )
    _check_one_node(each, "no node has that many", f"Ask for more {option('nodes')}.")
    why = f"{counted(nodes, 'node')} {nodes_why.text}, so {counted(each, 'GPU')} on each: {gpus} in all"
    return Layout(nodes, each), Reason(nodes_why.source, why)


def _check_one_node(gpus: int, why: str, hint: str) -> None:
    if gpus > MOST_GPUS_PER_NODE:
        raise RequestError(f"{gpus} GPUs would be on one node: {why}", hint, "gpus")


def _nearest(gpus: int, per_node: int) -> Hint:
    below = gpus // per_node * per_node
    fewest = next(n for n in range(-(-gpus // per_node), gpus + 1) if gpus % n == 0)
    return Hint(
        f"Ask for {below} or {below + per_node} GPUs, "
        f"or add {option('nodes', fewest)} for {gpus // fewest} on each of {fewest} nodes.",
        (*offered("gpus", below, below + per_node), *offered("nodes", fewest)),
    )


def _divisible(gpus: int, nodes: int, per_node: int | None) -> Hint:
    room = nodes * (per_node or MOST_GPUS_PER_NODE)
    below = gpus // nodes * nodes
    counts = [str(count) for count in (below, below + nodes) if 0 < count <= room] or [str(room)]
    whole = f", {room} for whole nodes" if per_node and str(room) not in counts else ""
    fitting = [n for n in range(-(-gpus * nodes // room), gpus + 1) if gpus % n == 0]
    fewer = max((n for n in fitting if n < nodes), default=min(fitting))
    return Hint(
        f"Ask for {' or '.join(counts)} GPUs{whole}, or for {option('nodes', fewer)}.",
        (*offered("gpus", *counts, *([room] if whole else [])), *offered("nodes", fewer)),
    )


DEFAULT_MEM_PER_GPU = "16G"
DEFAULT_MEM_PER_CPU = "4G"
MOST_MEMORY = "64T"
"More per node is taken for a typing error."


def memory(inputs: Inputs, layout: Layout, place: Place, cpus: int) -> Reasoned:
    """Memory of one node, of which the job has so many CPUs; None where the site allows no memory request."""
    request, site, origin = inputs
    node = place.node
    if leaves_out(request.sbatch, "mem"):
        return Reasoned(None, origin("sbatch.mem"))
    if site.memory.form == "none":
        if request.mem:
            raise RequestError(f"{site.name} allows no memory request", leave_out("mem"))
        return Reasoned(None, Reason(PROFILE, f"jobs on {site.name} request no memory"))
    if site.memory.form == "optional" and not request.mem:
        return Reasoned(None, Reason(PROFILE, f"jobs on {site.name} need not request memory"))
    if request.mem:
        total, why = _size(request.mem, with_gpus=bool(layout.gpus)), origin("mem")
    elif layout.gpus:
        total, why = _memory_of_gpus(site, node, layout.gpus_per_node)
    else:
        total, why = _memory_of_cpus(node, cpus)
    if node.memory and total > (most := units.megabytes(node.memory)):
        room = units.canonical_size(most)
        raise RequestError(
            f"the job needs {units.canonical_size(total)} per node, but a node of {site.name} has {room}",
            ask_for("mem", room, bound="at most"),
        )
    total, why = _within_limit(request, layout, place, total, why)
    return Reasoned(units.canonical_size(total) if total else "0", why)


def _within_limit(
    request: Request, layout: Layout, place: Place, total: int, why: Reason
) -> tuple[int, Reason]:
    """The memory of each node, lowered to the limit of a job unless the request names it."""
    limit = _most(place, "max_memory")
    if not limit or total * layout.nodes <= limit[0]:
        return total, why
    most, name = limit
    if request.mem:
        raise LimitExceeded(
            f"{units.canonical_size(total * layout.nodes)} of memory exceed the limit of {name}: "
            f"{units.canonical_size(most)} per job",
            ask_for("mem", units.canonical_size(most // layout.nodes), bound="at most"),
            "mem",
        )
    return most // layout.nodes, Reason(PROFILE, f"the limit of {name}")


def _memory_of_gpus(site: Site, node: Node, gpus: int) -> tuple[int, Reason]:
    per_gpu, source = first(
        (node.memory_per_gpu, from_profile(site, "node.memory_per_gpu")),
        (site.memory.per_gpu, from_profile(site, "memory.per_gpu")),
        (_memory_share(node), derived("a GPU's share of a node")),
        (DEFAULT_MEM_PER_GPU, NO_FACT),
    )
    return units.megabytes(per_gpu) * gpus, source.within(f"{per_gpu} per GPU ({{}}) x {gpus} per node")


def _memory_of_cpus(node: Node, cpus: int) -> tuple[int, Reason]:
    per_cpu, source = DEFAULT_MEM_PER_CPU, NO_FACT
    if node.cpus and node.memory:
        per_cpu = units.canonical_size(units.megabytes(node.memory) // node.cpus)
        source = derived("a CPU's share of a node")
    return units.megabytes(per_cpu) * cpus, source.within(f"{per_cpu} per CPU ({{}}) x {cpus}")


def _memory_share(node: Node) -> str | None:
    total = units.megabytes(node.memory) if node.memory else None
    gibibytes = share_of_gpu(total, node.gpus, 1024)
    return units.canonical_size(gibibytes) if gibibytes else None


def _size(text: str, *, with_gpus: bool) -> int:
    form = "Write a whole number with M, G or T, such as 64G."
    try:
        total = units.megabytes(text)
    except ValueError:
        raise RequestError(f"{option('mem')} {text!r} is not a size", form) from None
    if total > units.megabytes(MOST_MEMORY):
        raise RequestError(f"{option('mem', text)} is more than any node has: {MOST_MEMORY}", form)
    if with_gpus and 0 < total < units.LEAST_MEMORY:  # 0 is all memory of the node
        raise RequestError(
            f"{option('mem', text)} is {units.canonical_size(total)}, too little for a job with GPUs",
            phrased("Write ", "mem", f"{text}G", after=" for gigabytes.") if text.isdecimal() else form,
        )
    return total


DEFAULT_TIME = "01:00:00"
MOST_DAYS = 366
"A longer time limit is taken for a typing error."


def time(inputs: Inputs, limits: dict[str, Limits], nodes: int) -> Reasoned:
    """The time limit of a job on `nodes` nodes; `limits` names what sets each limit."""
    request, site, origin = inputs
    text, why = first(
        (request.time, origin("time")),
        (site.time if units.time_limit(site.time) else None, from_profile(site, "time")),
        (DEFAULT_TIME, default("slurmgen's default, because neither the request nor the profile sets one")),
    )
    total = _duration(text)
    for name, limit in limits.items():
        if (most := limit.seconds_for(nodes)) is not None and total > most:
            longest, exact = limit.time_for(nodes), units.canonical_time(total)
            written = text if text == exact else f"{text} is {exact}"
            if request.time:
                raise RequestError(
                    f"{option('time', written)}, but {name} allows {longest}",
                    ask_for("time", longest, bound="at most"),
                )
            total, why = most, Reason(PROFILE, f"the limit of {name}")
    total, why = _at_least(request, limits, total, why)
    return Reasoned(units.canonical_time(total), why)


def _at_least(request: Request, limits: dict[str, Limits], total: int, why: Reason) -> tuple[int, Reason]:
    """The time limit, raised to the shortest that the site allows."""
    for name, limit in limits.items():
        least = units.time_limit(limit.min_time)
        if least is not None and total < least:
            if request.time:
                raise RequestError(
                    f"{option('time', request.time)} is shorter than {name} allows: {limit.min_time}",
                    ask_for("time", limit.min_time, bound="at least"),
                )
            total, why = least, Reason(PROFILE, f"the shortest time limit of {name}")
    return total, why


def _duration(text: str) -> int:
    form = "Write HH:MM:SS or D-HH:MM:SS, such as 04:00:00."
    try:
        total = units.seconds(text)
    except ValueError:
        raise RequestError(f"{option('time')} {text!r} is not a Slurm time", form) from None
    if not total:
        raise RequestError(f"{option('time', text)} is zero", form)
    if total > MOST_DAYS * 86_400:
        raise RequestError(f"{option('time', text)} is longer than a year", form)
    return total
