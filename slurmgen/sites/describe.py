"""The facts of a profile in words, for readers: the docs page and the web page of a site are made of them."""

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from slurmgen.sites.model import Charge, Container, GpuType, Limits, Node, Partition, Qos, Site, When
from slurmgen.sites.nodes import cpu_partitions
from slurmgen.slurm import units
from slurmgen.slurm.sbatch_options import SbatchOptions


class Row(Struct, frozen=True):
    """One line of a table."""

    key: str
    "The key of the fact, or of the table of the facts, in the profile."
    cells: tuple[str, ...]


class Section(Struct, frozen=True):
    """A table of facts on one theme."""

    title: str
    head: tuple[str, ...]
    "The names of the columns; empty for those that need none."
    rows: tuple[Row, ...]
    remarks: tuple[str, ...] = ()
    "What follows from the facts, in sentences."

    @property
    def wide(self) -> bool:
        """Whether the table has more than a name and a value."""
        return len(self.head) > 2


def pairs(title: str, facts: Iterable[tuple[str, str, str | int | None]]) -> Section:
    """A table of names and values; facts without a value are left out.

    Args:
        facts: key, name and value of each.
    """
    rows = (Row(key, (name, str(value))) for key, name, value in facts if value not in ("", None))
    return Section(title, ("", ""), tuple(rows))


def code(*words: str) -> str:
    """Each word as code.

    >>> print(code("a=1", "b=2"))
    `a=1` `b=2`
    """
    return " ".join(f"`{word}`" for word in words)


def _code(word: str | None) -> str | None:
    return f"`{word}`" if word else None


def codes(words: Iterable[str]) -> str:
    """Each word as code, with commas."""
    return ", ".join(f"`{word}`" for word in words)


def plain(section: Section, row: Row) -> str:
    """The facts of a row in one line, without its name, such as `CPUs: 16, memory: 64G`."""
    named = zip(section.head[1:], row.cells[1:], strict=True)
    return ", ".join(f"{head}: {cell}" if head else cell for head, cell in named if cell)


def without_empty_columns(section: Section) -> Section:
    """The table without the columns that have no value; the first two stay."""
    columns = [n for n in range(len(section.head)) if n < 2 or any(row.cells[n] for row in section.rows)]
    rows = tuple(Row(row.key, tuple(row.cells[n] for n in columns)) for row in section.rows)
    return replace(section, head=tuple(section.head[n] for n in columns), rows=rows)


def sections(site: Site) -> tuple[Section, ...]:
    """All that a profile states about its site, by theme; a theme without facts has no section."""
    parts = (hardware, limits, software, access)
    return tuple(without_empty_columns(section) for part in parts for section in part(site) if section.rows)


def access(site: Site) -> Iterator[Section]:
    """What jobs cost, what users should know, and where they log in."""
    yield pairs("Charge", _charge(site.charge) if site.charge else ())
    yield pairs("Notes", ((f"notes.{topic}", topic, text) for topic, text in site.notes.items()))
    refused = site.refused_options.items()
    refusals = [Row(f"refused_options.{name}", (f"`--{name}`", reason)) for name, reason in refused]
    refusals += [Row("refusals", (f"“{text}”", advice)) for text, advice in site.refusals.items()]
    yield Section("Refusals", ("option or message", "advice"), tuple(refusals))
    yield pairs("Login", _login(site))


def _charge(charge: Charge) -> Iterator[tuple[str, str, str]]:
    of_one = f"for an hour of one {'GPU' if charge.per == 'gpu' else 'node'}"
    yield "charge", charge.unit, f"{charge.rate:g} {of_one}"
    for name, rate in charge.rates.items():
        yield "charge.rates", f"{charge.unit}, `{name}`", f"{rate:g} {of_one}"


def _login(site: Site) -> Iterator[tuple[str, str, str | None]]:
    login = site.login
    hours = f"{login.certificate_hours} hours" if login.certificate_hours else None
    yield "login.host", "host", _code(login.host)
    yield "login.other_hosts", "further hosts", codes(login.other_hosts)
    yield "login.jump_host", "jump host", _code(login.jump_host)
    yield "login.automation_host", "automation host", _code(login.automation_host)
    yield "login.transfer_hosts", "hosts for copying files", codes(login.transfer_hosts)
    yield "login.methods", "needs", ", ".join(login.methods)
    yield "login.certificate_hours", "certificate", hours
    yield "login.certificate_command", "gets a certificate", _code(login.certificate_command)
    yield "login.note", "note", login.note
    required = "required." if site.account.required else ""
    yield "account", "account", f"{required} {site.account.hint or ''}".strip()


_GPU_REQUESTS = {
    "gres": "`--gres=gpu:N` for each node",
    "gpus-per-node": "`--gpus-per-node=N`",
    "gpus": "`--gpus=N` for the job",
    "none": "by the partition; the site refuses a request",
}
_MEMORY_FORMS = {
    "mem": "`--mem`",
    "mem-per-gpu": "`--mem-per-gpu`",
    "mem-per-cpu": "`--mem-per-cpu`",
    "optional": "not needed",
    "none": "the site refuses a request",
}


def hardware(site: Site) -> Iterator[Section]:
    """What the nodes have, and what jobs must request of it."""
    yield Section("Nodes", ("node", "GPUs", "CPUs", "memory"), tuple(_nodes(site)))
    yield pairs("Requests", _requests(site) if site.node != Node() or site.partitions else ())


def _nodes(site: Site) -> Iterator[Row]:
    kinds: dict[str, tuple[str, Node]] = {
        "node": ("usual", site.node),
        "cpu_node": ("of jobs without GPUs", site.cpu_node),
    }
    for name, kind in site.gpu.types.items():
        label = f": {kind.label}" if kind.label else ""
        kinds[f"gpu.types.{name}"] = (f"GPU type `{name}`{label}", kind)
    for name, part in site.partitions.items():
        kinds[f"partitions.{name}.node"] = (f"partition `{name}`", part.node or Node())
    for key, (title, node) in kinds.items():
        if node != type(node)():
            cpus, memory = _amount(node.cpus, node.cpus_per_gpu), _amount(node.memory, node.memory_per_gpu)
            yield Row(key, (title, _amount(node.gpus), cpus, memory))


def _amount(total: object, of_gpu: object = None) -> str:
    share = f"{of_gpu} for each GPU" if of_gpu else ""
    return ", ".join(filter(None, [str(total or ""), share]))


def _requests(site: Site) -> Iterator[tuple[str, str, str | int | None]]:
    gpu, cpu = site.gpu, site.cpu
    yield "gpu.request", "GPUs", _GPU_REQUESTS[gpu.request]
    yield "gpu.type_required", "GPU type", "required" if gpu.type_required else None
    yield "gpu.default_type", "GPU type of a job that names none", gpu.default_type
    for name, kind in gpu.types.items():
        yield f"gpu.types.{name}", f"selects `{name}`", _selection(kind)
    exactly = "exactly " if cpu.exact else ""
    yield "cpu.per_gpu", "CPUs for each GPU", f"{exactly}{cpu.per_gpu}" if cpu.per_gpu else None
    yield (
        "cpu.multiple_of",
        "CPUs of a task",
        f"a multiple of {cpu.multiple_of}" if cpu.multiple_of > 1 else None,
    )
    yield "memory.form", "memory", _MEMORY_FORMS[site.memory.form]
    yield "memory.per_gpu", "memory for each GPU", site.memory.per_gpu
    yield "time", "time of a job that requests none", site.time
    yield "sbatch", "further directives", _options(site.sbatch)
    yield "max_array_size", "largest job array (MaxArraySize)", site.max_array_size


def _selection(kind: GpuType) -> str:
    constraint: SbatchOptions = {"constraint": kind.constraint} if kind.constraint else {}
    return _options(constraint | kind.sbatch)


def _options(options: SbatchOptions) -> str:
    return code(*(f"--{name}" if value is True else f"--{name}={value}" for name, value in options.items()))


_HEAD = ("", "time", "nodes", "GPUs", "CPUs", "memory", "of a user", "remarks")


def limits(site: Site) -> Iterator[Section]:
    """What one job may request, and the partition that it gets."""
    named: dict[str, tuple[str, Limits]] = {}
    if site.limits != Limits():
        named["limits"] = ("every job", site.limits)
    named |= {f"partitions.{name}": (f"partition `{name}`", part) for name, part in site.partitions.items()}
    named |= {f"qos.{name}": (f"QoS `{name}`", qos) for name, qos in site.qos.items()}
    rows = tuple(Row(key, (name, *_cells(each))) for key, (name, each) in named.items())
    yield Section("Limits of a job", _HEAD, rows, tuple(_remarks(site)))


def _cells(limits: Limits) -> tuple[str, ...]:
    return (
        _limit_times(limits),
        _range(limits.min_nodes, limits.max_nodes),
        _range(limits.min_gpus, limits.max_gpus),
        _range(None, limits.max_cpus),
        f"up to {limits.max_memory}" if limits.max_memory else "",
        _of_user(limits),
        ", ".join(_kind(limits)),
    )


def _limit_times(limits: Limits) -> str:
    parts = [f"from {limits.min_time}"] if limits.min_time else []
    parts += [f"{limit.time} to {limit.nodes} nodes" for limit in limits.max_time_by_nodes]
    return ", ".join([*parts, *([limits.max_time] if limits.max_time else [])])


def _of_user(limits: Limits) -> str:
    counts = (
        (limits.max_jobs, "jobs"),
        (limits.max_running_jobs, "running"),
        (limits.max_nodes_per_user, "nodes"),
    )
    return ", ".join(f"{count} {what}" for count, what in counts if count is not None)


def _range(least: int | None, most: int | None) -> str:
    if most == 0:
        return "none"
    if most is None:
        return f"from {least}" if least else ""
    return f"from {least} to {most}" if least else f"up to {most}"


def _kind(limits: Limits) -> Iterator[str]:
    if isinstance(limits, Partition):
        if limits.gpu_type:
            yield f"GPU type `{limits.gpu_type}`"
        if limits.whole_nodes:
            yield "whole nodes"
    if isinstance(limits, Qos):
        if limits.partitions:
            yield f"in {codes(limits.partitions)}"
        if limits.replaces_partition_limits:
            yield "replaces the limits of the partition"
    if isinstance(limits, Partition | Qos) and limits.preemptible:
        yield "preemptible"


def _remarks(site: Site) -> Iterator[str]:
    if site.default_partitions:
        yield f"A job that names no partition gets {_first(site.default_partitions)}."
    if without_gpus := cpu_partitions(site):
        yield f"A job without GPUs that names no partition gets {_first(without_gpus)}."
    if site.default_qos:
        yield f"A job that names no QoS gets {_first(site.default_qos)}."
    elif site.qos_required:
        yield "Every job must name a QoS."


def _first(names: tuple[str, ...]) -> str:
    return codes(names) if len(names) == 1 else f"the first of {codes(names)} whose limits allow it"


class Overview(Struct, frozen=True):
    """What users compare sites by; empty means that the profile does not say."""

    name: str
    title: str
    gpu_types: tuple[str, ...]
    gpus_per_node: tuple[int, ...]
    "In increasing order."
    engines: tuple[str, ...]
    "Container engines; the default one first."
    max_time: str
    "The longest time of a job with GPUs, as Slurm writes it."
    newest_source: str
    "The date of the newest source."


def overview(site: Site) -> Overview:
    """The line of a site."""
    container = site.container
    return Overview(
        name=site.name,
        title=site.title,
        gpu_types=tuple(_gpu_types(site)),
        gpus_per_node=tuple(sorted(set(_gpus_per_node(site)))),
        engines=(container.engine, *container.engines) if container else (),
        max_time=max(_longest_times(site), key=longest_seconds, default=""),
        newest_source=max((source.date or "" for source in site.sources.values()), default=""),
    )


def _gpu_types(site: Site) -> Iterator[str]:
    if not site.gpu.types and site.gpu.vendor == "amd":
        yield "AMD"
    for name, kind in site.gpu.types.items():
        yield kind.label or name


def _gpus_per_node(site: Site) -> Iterator[int]:
    nodes = (site.node, *site.gpu.types.values(), *(part.node for part in site.partitions.values()))
    yield from (node.gpus for node in nodes if node and node.gpus)


def _longest_times(site: Site) -> Iterator[str]:
    over = [qos for qos in site.qos.values() if qos.replaces_partition_limits]
    partitions = [part for part in site.partitions.values() if part.has_gpus]
    kinds: list[list[Limits]] = [[*partitions, *over], [site.limits], [*site.qos.values()]]
    found = ([time for part in kind for time in _limits(part)] for kind in kinds)
    yield from next(filter(None, found), [])


def _limits(limits: Limits) -> Iterator[str]:
    yield from (limit.time for limit in limits.max_time_by_nodes)
    if limits.max_time:
        yield limits.max_time


def longest_seconds(time: str) -> float:
    """A time limit as a number to compare.

    >>> longest_seconds("1-00:00:00"), longest_seconds("UNLIMITED")
    (86400, inf)
    """
    seconds = units.time_limit(time)
    return float("inf") if seconds is None else seconds


_GROUPS = {
    "always": "all",
    "multi_gpu": "with several GPUs",
    "multi_node": "on several nodes",
    "container": "in a container",
    "task": "each task",
}
_INTERNET = {"yes": "yes", "no": "no", "proxy": "through a proxy", None: None}
_CONDITIONS: dict[str, dict[str | bool, str]] = {
    "nodes": {"one": "on one node", "several": "on several nodes"},
    "tasks": {"per-gpu": "with one task per GPU", "per-node": "with one task per node"},
    "whole_nodes": {True: "on whole nodes", False: "on parts of nodes"},
    "has_gpus": {True: "with GPUs", False: "without GPUs"},
    "several_gpus": {True: "with several GPUs", False: "with one GPU or none"},
    "container": {True: "in a container", False: "without a container"},
}
_NAMES = {"gpu_type": "GPU type", "partition": "partition", "qos": "QoS"}


def software(site: Site) -> Iterator[Section]:
    """What jobs run with."""
    yield Section("Variables", ("variable", "value", "jobs", "reason"), tuple(_variables(site)))
    yield pairs("Software", _software(site))
    yield pairs("Containers", _containers(site.container) if site.container else ())
    conditions = tuple(
        Row(f"when.{name}", (_meets(table), _sets(table))) for name, table in site.when.items()
    )
    yield Section("Settings of some jobs", ("jobs", "settings"), conditions)


def _variables(site: Site) -> Iterator[Row]:
    for group, jobs in _GROUPS.items():
        for name, value in site.env.groups[group].items():
            cells = (f"`{name}`", f"`{value}`", jobs, site.env.notes.get(name, ""))
            yield Row(f"env.{group}.{name}", cells)


def _software(site: Site) -> Iterator[tuple[str, str, str | None]]:
    launch = site.launch
    yield "gpu.vendor", "GPUs", "AMD" if site.gpu.vendor == "amd" else None
    yield "architecture", "architecture", site.architecture
    yield "internet", "internet on compute nodes", _INTERNET[site.internet]
    yield "local_dir", "local storage of a node", _code(site.local_dir)
    yield "job_folders", "jobs start below", codes(site.job_folders)
    yield "modules.init", "before modules are loaded", code(*site.modules.init)
    yield "modules.load", "modules", codes(site.modules.load)
    yield "python_env", "Python", _code(site.python_env)
    yield "launch.ddp", "ddp starts with", "`srun`, one task for each GPU" if launch.ddp == "srun" else None
    yield "launch.torchrun", "torchrun", f"`{' '.join(launch.torchrun)}`" if launch.torchrun else None
    yield "launch.torchrun_options", "torchrun options", code(*launch.torchrun_options)
    yield "launch.srun", "srun options", code(*launch.srun)
    yield "launch.mpi", "MPI", launch.mpi
    yield "launch.before", "before the step", code(*launch.before)
    yield "launch.before_on_each_node", "on each node before the step", code(*launch.before_on_each_node)


def _containers(container: Container) -> Iterator[tuple[str, str, str | None]]:
    yield "container.engine", "engine of a job that chooses none", f"`{container.engine}`"
    yield "container.engines", "further engines", codes(container.engines)
    yield "container.image", "image", _code(container.image)
    for name, engine in container.engines.items():
        key = f"container.engines.{name}"
        yield f"{key}.image", f"image of {name}", _code(engine.image)
        yield f"{key}.options", f"options of {name}", code(*engine.options, *engine.gpu_options)
        yield f"{key}.modules", f"modules of {name}", codes(engine.modules)
    yield "container.options", "options", code(*container.options)
    yield "container.gpu_options", "options of jobs with GPUs", code(*container.gpu_options)
    yield "container.modules", "modules", codes(container.modules)
    yield "container.binds", "binds", codes(container.binds)
    yield "container.multi_node_binds", "binds on several nodes", codes(container.multi_node_binds)
    yield "container.multi_node_modules", "modules on several nodes", codes(container.multi_node_modules)


def _meets(table: When) -> str:
    words = [texts.get(getattr(table, name), "") for name, texts in _CONDITIONS.items()]
    named = {title: getattr(table, name) for name, title in _NAMES.items()}
    words += [f"{title} `{name}`" for title, name in named.items() if name]
    return ", ".join(filter(None, words)) or "all"


def _sets(table: When) -> str:
    words = [f"account suffix {table.account_suffix}"] if table.account_suffix else []
    words += [f"--{name}={value}" for name, value in table.sbatch.items()]
    words += [f"module load {name}" for name in table.modules.load] + [*table.modules.init]
    words += [f"{name}={value}" for name, value in (table.env | table.task_env).items()]
    words += [f"srun {option}" for option in table.launch.srun]
    words += [*table.launch.before, *table.launch.before_on_each_node]
    texts = [f"refused: {table.refuse}"] if table.refuse else []
    texts += [table.note] if table.note else []
    return " ".join([code(*words), *texts]).strip()


def facts_by_mark(site: Site) -> "Counter[str]":
    """The number of facts by the mark of their source; a list counts as one, a default does not count."""
    sources = [site.source_of(key) for key in site.stated]
    return Counter(site.sources[name].mark for name in sources if name)


def sources_of(site: Site, keys: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The names of the sources of each fact, or of all stated facts of each table, by its key.

    The node of a partition counts for itself. A default has a source only if one names it.
    """
    found: dict[str, dict[str, None]] = {}
    for fact in site.stated:
        if name := site.source_of(fact):
            for table in _tables(fact):
                found.setdefault(table, {})[name] = None
    return {key: tuple(found.get(key) or _named(site, key)) for key in keys}


def _tables(fact: str) -> Iterator[str]:
    parts = fact.split(".")
    for end in range(1, len(parts) + 1):
        if parts[end : end + 1] != ["node"]:
            yield ".".join(parts[:end])


def _named(site: Site, key: str) -> Iterator[str]:
    tables, name = {*_tables(key)}, site.source_of(key)
    if name and any(tables.intersection(source.facts) for source in site.sources.values()):
        yield name
