"""Checks of a profile beyond its types: facts that are wrong, or that contradict each other."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slurmgen.errors import SlurmgenError, did_you_mean
from slurmgen.field_names import worded
from slurmgen.python_env import setup_lines
from slurmgen.sites.fault import Fault
from slurmgen.sites.model import Container, Limits, Partition, Qos, Site
from slurmgen.sites.quantities import excessive, unreadable
from slurmgen.sites.software import CONDITIONS
from slurmgen.slurm import sbatch_options
from slurmgen.slurm.shell import PER_TASK, is_full_path, variables_in
from slurmgen.text import listed


def faults(site: Site, file_stem: str) -> Iterator[Fault]:
    """Every wrong fact of a site; `file_stem` is the name of its file without `.toml`."""
    if site.name != file_stem:
        hint = f"A profile is found by its file name; call it {site.name}.toml."
        yield Fault(("name",), f"it is {site.name!r}, and the file is {file_stem}.toml", hint)
    invalid = [*unreadable(site)]
    yield from invalid
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
    if not invalid:
        yield from excessive(site)


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
                hint = (
                    f"Remove it from the profile; a job sets it with {worded(managed)}."
                    if managed
                    else error.hint
                )
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


_OF_EVERY_JOB = ("job-name", "nodes", "ntasks-per-node", "output", "time")


def _refusals(site: Site) -> Iterator[Fault]:
    """Refusals of every job, and of options that sbatch does not have."""
    for name, table in site.when.items():
        if table.refuse and all(getattr(table, condition) is None for condition in CONDITIONS):
            fact = "without a condition, every job is refused"
            yield Fault(("when", name, "refuse"), fact, f"Set a condition: {listed(CONDITIONS)}.")
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
