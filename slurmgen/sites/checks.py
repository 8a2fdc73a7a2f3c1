"""Checks of a profile beyond its types: facts that are wrong, or that contradict each other."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from slurmgen.errors import SlurmgenError
from slurmgen.python_env import setup_lines
from slurmgen.sites.model import Env, Node, Site
from slurmgen.sites.nodes import Place, gpu_partitions, place_of
from slurmgen.slurm import durations, sbatch_options, sizes
from slurmgen.slurm.shell import PER_TASK, variables_in


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
    yield from _image(site)
    yield from _sbatch(site)
    yield from _default_partitions(site)
    yield from _variables(site.env)
    if not unreadable:
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
    for name, partition in site.partitions.items():
        yield ("partitions", name, "max_time"), partition.max_time
    for name, qos in site.qos.items():
        yield ("qos", name, "max_time"), qos.max_time


def _sizes(site: Site) -> Iterator[tuple[tuple[str, ...], str | None]]:
    yield ("memory", "per_gpu"), site.memory.per_gpu
    yield ("node", "memory"), site.node.memory
    for name, kind in site.gpu.types.items():
        yield ("gpu", "types", name, "memory"), kind.memory
    for name, partition in site.partitions.items():
        yield ("partitions", name, "node", "memory"), (partition.node or Node()).memory


def _python_env(site: Site) -> Iterator[Fault]:
    try:
        setup_lines(site.python_env or "none")
    except SlurmgenError as error:
        yield Fault(("python_env",), error.fact, error.hint)


def _image(site: Site) -> Iterator[Fault]:
    if site.container and (site.container.image or "").startswith("-"):
        yield Fault(
            ("container", "image"),
            f"{site.container.image!r} begins with a dash",
            "Write the image's full path.",
        )


def _sbatch(site: Site) -> Iterator[Fault]:
    for key, value in sbatch_options.given(site.sbatch).items():
        try:
            sbatch_options.checked(key, value)
        except SlurmgenError as error:
            managed = sbatch_options.MANAGED.get(key)
            hint = f"Remove it from the profile; for a job it is set by {managed}." if managed else error.hint
            yield Fault(("sbatch", key), error.fact, hint)


def _default_partitions(site: Site) -> Iterator[Fault]:
    defaults = [name for name, partition in site.partitions.items() if partition.default]
    if len(defaults) > 1:
        yield Fault(
            ("partitions", defaults[1], "default"),
            f"several default partitions: {', '.join(defaults)}",
            "Keep one.",
        )


_SET_BY_SCRIPT = ("MASTER_ADDR", "MASTER_PORT", "REQUEUE_FILE")


def _variables(env: Env) -> Iterator[Fault]:
    groups = {
        group: getattr(env, group) for group in ("always", "multi_gpu", "multi_node", "container", "task")
    }
    for group, values in groups.items():
        for name, value in values.items():
            keys = ("env", group, name)
            if name in _SET_BY_SCRIPT:
                yield Fault(keys, "every script sets it itself, so this would be lost", "Remove it.")
            for used in variables_in(value) if group != "task" else ():
                if used in PER_TASK:
                    fact = f"${used} is expanded in the batch script, so that all tasks get the same value"
                    yield Fault(keys, fact, "Move it to [env.task], which each task exports for itself.")


def _shares(site: Site) -> Iterator[Fault]:
    """CPUs and memory per GPU, times the GPUs of a node, that exceed those of the node."""
    cpus, memory = site.cpu.per_gpu, site.memory.per_gpu
    for name, node in {place.node_name: place.node for place in _places(site)}.items():
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
    most = site.partitions[name].max_seconds if name else None
    seconds = durations.limit(site.time)
    if seconds is not None and most is not None and seconds > most:
        limit = site.partitions[name or ""].max_time
        fact = f"{site.time} is longer than the default partition {name} allows: {limit}"
        yield Fault(("time",), fact, f"Write at most {limit}.")
