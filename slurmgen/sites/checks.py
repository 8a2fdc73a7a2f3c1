"""Checks of a profile beyond its types: facts that are wrong, or that contradict each other."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from slurmgen.errors import SlurmgenError, did_you_mean
from slurmgen.python_env import setup_lines
from slurmgen.sites.model import Container, Limits, Node, Partition, Qos, Site
from slurmgen.sites.nodes import Place, gpu_partitions, place_of
from slurmgen.slurm import durations, sbatch_options, sizes
from slurmgen.slurm.shell import PER_TASK, is_full_path, variables_in
from slurmgen.text import listed


class Fault(NamedTuple):
    """A wrong fact."""

    keys: tuple[str, ...]
    "The keys that lead to it in the profile."
    fact: str
    hint: str


def faults(site: Site, file_stem: str) -> Iterator[Fault]:
    """Every wrong fact of a site; `file_stem` is the name of its file without `.toml`."""
    if site.name != file_stem:
        hint = f"A profile is found by its file name; call it {site.name}.toml."
        yield Fault(("name",), f"it is {site.name!r}, and the file is {file_stem}.toml", hint)
    unreadable = [*_unreadable(site)]
    yield from unreadable
    yield from _python_env(site)
    yield from _container(site)
    yield from _sbatch(site)
    yield from _defaults(site)
    yield from _names(site)
    yield from _variables(site)
    yield from _refusals(site)
    yield from _srun(site)
    yield from _sources(site)
    if site.cpu.exact and not site.cpu.per_gpu:
        yield Fault(("cpu", "exact"), "it needs per_gpu, the number of CPUs", "Set per_gpu.")
    if not unreadable:
        yield from _ranges(site)
        yield from _shares(site)
        yield from _default_time(site)


def _unreadable(site: Site) -> Iterator[Fault]:
    """Times and sizes that are not valid."""
    for keys, text in _times(site):
        yield from _unless(durations.limit, keys, text, "a Slurm time", "1-12:00:00 or UNLIMITED")
    for keys, text in _sizes(site):
        yield from _unless(sizes.megabytes, keys, text, "a size", "64G")


def _unless(
    read: Callable[[str], Any], keys: tuple[str, ...], text: str | None, what: str, example: str
) -> Iterator[Fault]:
    try:
        read(text) if text is not None else None
    except ValueError:
        yield Fault(keys, f"{text!r} is not {what}", f"Write one such as {example}.")


def _times(site: Site) -> Iterator[tuple[tuple[str, ...], str | None]]:
    yield ("time",), site.time
    for keys, limits in _limits(site):
        yield (*keys, "max_time"), limits.max_time
        yield (*keys, "min_time"), limits.min_time
        yield from (((*keys, "max_time_by_nodes"), limit.time) for limit in limits.max_time_by_nodes)


def _limits(site: Site) -> Iterator[tuple[tuple[str, ...], Limits]]:
    yield ("limits",), site.limits
    yield from ((("partitions", name), partition) for name, partition in site.partitions.items())
    yield from ((("qos", name), qos) for name, qos in site.qos.items())


def _sizes(site: Site) -> Iterator[tuple[tuple[str, ...], str | None]]:
    yield ("memory", "per_gpu"), site.memory.per_gpu
    yield from _node_sizes(("node",), site.node)
    yield from _node_sizes(("cpu_node",), site.cpu_node)
    for name, kind in site.gpu.types.items():
        yield from _node_sizes(("gpu", "types", name), kind)
    for name, partition in site.partitions.items():
        yield from _node_sizes(("partitions", name, "node"), partition.node or Node())


def _node_sizes(keys: tuple[str, ...], node: Node) -> Iterator[tuple[tuple[str, ...], str | None]]:
    yield (*keys, "memory"), node.memory
    yield (*keys, "memory_per_gpu"), node.memory_per_gpu


def _python_env(site: Site) -> Iterator[Fault]:
    try:
        setup_lines(site.python_env or "none")
    except SlurmgenError as error:
        yield Fault(("python_env",), error.fact, error.hint)


def _container(site: Site) -> Iterator[Fault]:
    container = site.container or Container()
    images: dict[tuple[str, ...], str | None] = {("container", "image"): container.image}
    images |= {
        ("container", "engines", name, "image"): other.image for name, other in container.engines.items()
    }
    for keys, image in images.items():
        if (image or "").startswith("-"):
            yield Fault(keys, f"{image!r} begins with a dash", "Write the image's full path.")
    if not is_full_path(container.image_dir):
        hint = "All jobs share it; begin it with /, ~/ or a $NAME."
        yield Fault(("container", "image_dir"), f"{container.image_dir!r} is not a full path", hint)
    if container.engine in container.engines:
        own = ("container", "engines", container.engine)
        yield Fault(own, "it is the engine of [container] too", "Write its keys there.")


def _sbatch(site: Site) -> Iterator[Fault]:
    tables = {("sbatch",): site.sbatch} | {
        ("when", name, "sbatch"): table.sbatch for name, table in site.when.items()
    }
    for keys, options in tables.items():
        for key, value in sbatch_options.given(options).items():
            try:
                sbatch_options.checked(key, value)
            except SlurmgenError as error:
                managed = sbatch_options.MANAGED.get(key)
                hint = f"Remove it from the profile; a job sets it with {managed}." if managed else error.hint
                yield Fault((*keys, key), error.fact, hint)


def _defaults(site: Site) -> Iterator[Fault]:
    """Defaults that no job reaches, because an earlier default has no limits."""
    tables: dict[str, Mapping[str, Partition | Qos]] = {"partitions": site.partitions, "qos": site.qos}
    for table, entries in tables.items():
        defaults = [name for name, entry in entries.items() if entry.default]
        unlimited = next((name for name in defaults[:-1] if not _is_limited(entries[name])), None)
        if unlimited:
            yield Fault(
                (table, defaults[-1], "default"),
                f"several defaults, {', '.join(defaults)}, and {unlimited} has no limit",
                f"Set a limit of {unlimited}, such as max_gpus, or keep one default.",
            )


def _is_limited(limits: Limits) -> bool:
    return any(getattr(limits, field) for field in Limits.__struct_fields__)


def _names(site: Site) -> Iterator[Fault]:
    """Names of GPU types, partitions and QoS that the profile does not have."""
    types: list[tuple[tuple[str, ...], str | None]] = [(("gpu", "default_type"), site.gpu.default_type)]
    types += [(("partitions", name, "gpu_type"), part.gpu_type) for name, part in site.partitions.items()]
    types += [(("when", name, "gpu_type"), table.gpu_type) for name, table in site.when.items()]
    for keys, name in types:
        if name is not None and name not in site.gpu.types:
            yield Fault(keys, f"there is no GPU type {name!r}", did_you_mean(name, site.gpu.types))
    for key, table in site.when.items():
        if table.partition is not None and table.partition not in site.partitions:
            fact = f"there is no partition {table.partition!r}"
            yield Fault(("when", key, "partition"), fact, did_you_mean(table.partition, site.partitions))
        if table.qos is not None and site.qos and table.qos not in site.qos:
            fact = f"there is no QoS {table.qos!r}"
            yield Fault(("when", key, "qos"), fact, did_you_mean(table.qos, site.qos))


_CONDITIONS = ("nodes", "tasks", "whole_nodes", "has_gpus", "gpu_type", "partition", "qos", "container")
_OF_EVERY_JOB = ("job-name", "nodes", "ntasks-per-node", "output", "time")


def _refusals(site: Site) -> Iterator[Fault]:
    """Refusals of every job, and of options that sbatch does not have."""
    for name, table in site.when.items():
        if table.refuse and all(getattr(table, condition) is None for condition in _CONDITIONS):
            fact = "without a condition, every job is refused"
            yield Fault(("when", name, "refuse"), fact, f"Set a condition: {listed(_CONDITIONS)}.")
    known = (*sbatch_options.MANAGED, *sbatch_options.OTHERS)
    for name in site.refused_options:
        if name in _OF_EVERY_JOB:
            yield Fault(("refused_options", name), "every script of slurmgen has this option", "Remove it.")
        elif name not in known:
            fact = f"{name!r} is not an sbatch option"
            yield Fault(("refused_options", name), fact, did_you_mean(name, sorted(known)))


_SRUN_SHORT = {
    "-c": "cpus-per-task",
    "-n": "ntasks",
    "-N": "nodes",
    "-G": "gpus",
    "-K": "kill-on-bad-exit",
    "-t": "time",
    "-A": "account",
    "-p": "partition",
    "-q": "qos",
    "-J": "job-name",
    "-o": "output",
    "-D": "chdir",
}
_SET_FOR_SRUN = (sbatch_options.MANAGED.keys() - {"container"}) | {"kill-on-bad-exit"}
"Options of srun that the step sets, or that it takes from the directives."


def _srun(site: Site) -> Iterator[Fault]:
    """Options of srun that every step has."""
    tables: dict[tuple[str, ...], tuple[str, ...]] = {("launch",): site.launch.srun}
    tables |= {("when", name, "launch"): table.launch.srun for name, table in site.when.items()}
    for keys, words in tables.items():
        for text in words:
            name = _SRUN_SHORT.get(text[:2]) or text.removeprefix("--").partition("=")[0]
            if text.startswith("-") and name in _SET_FOR_SRUN:
                fact = f"slurmgen sets --{name} itself, so {text!r} would contradict it"
                yield Fault((*keys, "srun"), fact, "Remove it.")


def _sources(site: Site) -> Iterator[Fault]:
    """Facts that a source names and that the profile does not state."""
    for name, source in site.sources.items():
        for fact in source.facts:
            if not _states(site, fact.split(".")):
                yield Fault(
                    ("sources", name, "facts"), f"the profile does not state {fact!r}", "Correct the key."
                )


_SET_BY_SCRIPT = ("MASTER_ADDR", "MASTER_PORT", "REQUEUE_FILE")


def _states(value: Any, keys: Sequence[str]) -> bool:
    """Whether a profile states a value under these keys. The key of a dict may have dots: a100_1g.5gb."""
    if not keys or value is None:
        return value is not None
    if isinstance(value, dict):
        parts = ((".".join(keys[:end]), keys[end:]) for end in range(1, len(keys) + 1))
        return any(key in value and _states(value[key], rest) for key, rest in parts)
    fields = getattr(value, "__struct_fields__", ())
    return keys[0] in fields and _states(getattr(value, keys[0]), keys[1:])


def _variables(site: Site) -> Iterator[Fault]:
    names = ("always", "multi_gpu", "multi_node", "container", "task")
    groups: dict[tuple[str, ...], dict[str, str]] = {
        ("env", group): getattr(site.env, group) for group in names
    }
    groups |= {("when", name, "env"): table.env for name, table in site.when.items()}
    groups |= {("when", name, "task_env"): table.task_env for name, table in site.when.items()}
    for group, values in groups.items():
        for name, value in values.items():
            keys = (*group, name)
            if name in _SET_BY_SCRIPT:
                yield Fault(keys, "every script sets it itself, so this value has no effect", "Remove it.")
            for used in variables_in(value) if group[-1] not in ("task", "task_env") else ():
                if used in PER_TASK:
                    fact = f"${used} is expanded in the batch script, so that all tasks get the same value"
                    yield Fault(keys, fact, "Move it to [env.task], which each task exports for itself.")


def _ranges(site: Site) -> Iterator[Fault]:
    """Limits that no job can meet."""
    for keys, limits in _limits(site):
        least, most = durations.limit(limits.min_time), durations.limit(limits.max_time)
        pairs = {"min_time": (least, most), "min_gpus": (limits.min_gpus, limits.max_gpus)}
        pairs["min_nodes"] = (limits.min_nodes, limits.max_nodes)
        for name, (low, high) in pairs.items():
            if low is not None and high is not None and low > high:
                yield Fault((*keys, name), "it is above the maximum", "Correct one of them.")
        nodes = [limit.nodes for limit in limits.max_time_by_nodes]
        if nodes != sorted(nodes):
            yield Fault(
                (*keys, "max_time_by_nodes"), "the nodes do not increase", "Sort the entries by nodes."
            )


def _shares(site: Site) -> Iterator[Fault]:
    """CPUs and memory per GPU, times the GPUs of a node, that exceed those of the node."""
    for name, node in {place.node_name: place.node for place in _places(site)}.items():
        cpus = node.cpus_per_gpu or site.cpu.per_gpu
        memory = node.memory_per_gpu or site.memory.per_gpu
        if cpus and node.gpus and node.cpus and cpus * node.gpus > node.cpus:
            yield _too_much("cpu", f"{cpus} CPUs", node.gpus, f"{cpus * node.gpus}", name, f"{node.cpus}")
        if memory and node.gpus and node.memory:
            total = sizes.megabytes(memory) * node.gpus
            if total > sizes.megabytes(node.memory):
                yield _too_much("memory", memory, node.gpus, sizes.canonical(total), name, node.memory)


def _too_much(table: str, each: str, gpus: int, total: str, name: str, has: str) -> Fault:
    fact = f"{each} for each of {gpus} GPUs are {total}, but a node of {name} has {has}"
    return Fault((table, "per_gpu"), fact, "Lower it, or correct what that node has.")


def _places(site: Site) -> Iterator[Place]:
    """The nodes of each partition with GPUs, and of each GPU type."""
    yield place_of(site)
    for name in gpu_partitions(site):
        yield place_of(site, name)
    for kind in site.gpu.types:
        yield place_of(site, gpu_type=kind)


def _default_time(site: Site) -> Iterator[Fault]:
    """A default time that exceeds the limit of the default partition."""
    name = site.default_partition
    most = site.partitions[name].seconds_for(1) if name else None
    seconds = durations.limit(site.time)
    if seconds is not None and most is not None and seconds > most:
        limit = site.partitions[name or ""].time_for(1)
        fact = f"{site.time} is longer than the default partition {name} allows: {limit}"
        yield Fault(("time",), fact, f"Write at most {limit}.")
