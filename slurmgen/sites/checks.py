"""Check a site profile: its values, and facts that contradict each other."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from slurmgen.errors import SlurmgenError, did_you_mean, worded
from slurmgen.python_env import setup_lines
from slurmgen.sites.model import CONDITIONS, Container, Fact, Limits, Node, Partition, Qos, Site, When
from slurmgen.sites.nodes import Place, cpu_partitions, gpu_partitions, place_of, places_of
from slurmgen.slurm import sbatch_options, units
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
    for keys, image in _images(site):
        if image.startswith("-"):
            yield Fault(keys, f"{image!r} begins with a dash", "Write the image's full path.")
    if not is_full_path(container.image_dir):
        hint = "All jobs share it; begin it with /, ~/ or a $NAME."
        yield Fault(("container", "image_dir"), f"{container.image_dir!r} is not a full path", hint)
    if container.engine in container.engines:
        own = ("container", "engines", container.engine)
        yield Fault(own, "it is the engine of [container] too", "Write its keys there.")


def _sbatch(site: Site) -> Iterator[Fault]:
    tables: dict[tuple[str, ...], sbatch_options.SbatchOptions] = {("sbatch",): site.sbatch}
    tables |= {("when", name, "sbatch"): table.sbatch for name, table in site.when.items()}
    tables |= {("gpu", "types", name, "sbatch"): kind.sbatch for name, kind in site.gpu.types.items()}
    for keys, options in tables.items():
        for key, value in sbatch_options.given(options).items():
            try:
                sbatch_options.checked(key, value)
            except SlurmgenError as error:
                managed = sbatch_options.MANAGED.get(key)
                own = f"Remove it from the profile; a job sets it with {worded(managed or '')}."
                yield Fault((*keys, key), error.fact, own if managed else error.hint)


def _defaults(site: Site) -> Iterator[Fault]:
    """Defaults that no job reaches, because an earlier default has no limits."""
    tables: dict[str, Mapping[str, Partition | Qos]] = {"partitions": site.partitions, "qos": site.qos}
    for table, entries in tables.items():
        defaults = [name for name, entry in entries.items() if entry.default]
        limits = Limits.__struct_fields__
        unlimited = next(
            (name for name in defaults[:-1] if not any(getattr(entries[name], key) for key in limits)), None
        )
        if unlimited:
            yield Fault(
                (table, defaults[-1], "default"),
                f"several defaults, {', '.join(defaults)}, and {unlimited} has no limit",
                f"Set a limit of {unlimited}, such as max_gpus, or keep one default.",
            )


def _names(site: Site) -> Iterator[Fault]:
    """Names of GPU types, partitions and QoS that the profile does not have."""
    types: list[tuple[tuple[str, ...], str | None]] = [(("gpu", "default_type"), site.gpu.default_type)]
    types += [(("partitions", name, "gpu_type"), part.gpu_type) for name, part in site.partitions.items()]
    types += [(("when", name, "gpu_type"), table.gpu_type) for name, table in site.when.items()]
    for keys, name in types:
        yield from _unlisted(keys, name, "GPU type", site.gpu.types)
    for key, table in site.when.items():
        yield from _unlisted(("when", key, "partition"), table.partition, "partition", site.partitions)
        yield from _unlisted(("when", key, "qos"), table.qos if site.qos else None, "QoS", site.qos)


def _unlisted(keys: tuple[str, ...], name: str | None, what: str, known: Iterable[str]) -> Iterator[Fault]:
    if name is not None and name not in known:
        yield Fault(keys, f"there is no {what} {name!r}", did_you_mean(name, known))


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
    groups: dict[tuple[str, ...], dict[str, str]]
    groups = {("env", group): values for group, values in site.env.groups.items()}
    groups |= {("when", name, "env"): table.env for name, table in site.when.items()}
    groups |= {("when", name, "task_env"): table.task_env for name, table in site.when.items()}
    for keys, values in groups.items():
        for name, value in values.items():
            if name in _SET_BY_SCRIPT:
                fact = "every script sets it itself, so this value has no effect"
                yield Fault((*keys, name), fact, "Remove it.")
            for used in variables_in(value) if keys[-1] not in ("task", "task_env") else ():
                if used in PER_TASK:
                    fact = f"${used} is expanded in the batch script, so that all tasks get the same value"
                    hint = "Move it to [env.task], which each task exports for itself."
                    yield Fault((*keys, name), fact, hint)


def contradictions(site: Site) -> Iterator[Fault]:
    """Every fault that the strict checks find in a site whose facts are valid."""
    for check in CHECKS:
        yield from check(site)


def unknown_nodes(site: Site) -> Iterator[Fault]:
    """Partitions of whose GPU nodes the profile states nothing."""
    kinds = [kind for kind in site.gpu.types.values() if kind.gpus]
    for name in gpu_partitions(site):
        if not kinds and place_of(site, name).node == Node():
            yield Fault(
                ("partitions", name),
                "the profile does not state how many GPUs a node has",
                f"Set gpus in [node] or [partitions.{name}.node], or max_gpus = 0 for a partition without.",
            )


def no_default_partition(site: Site) -> Iterator[Fault]:
    """Several partitions, and none of them is the default."""
    if len(gpu_partitions(site)) > 1 and not site.default_partitions:
        fact = f"none of the partitions is the default: {listed(gpu_partitions(site))}"
        yield Fault(("partitions",), fact, "Set default = true for one, or several in order of preference.")


def default_for_no_gpu_job(site: Site) -> Iterator[Fault]:
    """A default partition that no GPU job can use."""
    for name in site.default_partitions:
        if not site.partitions[name].has_gpus:
            fact = "the default partition has no GPUs"
            yield Fault(("partitions", name, "default"), fact, "Make a partition with GPUs the default.")


def default_without_gpus_needs_some(site: Site) -> Iterator[Fault]:
    """A default partition of jobs without GPUs that accepts none of them."""
    for name, partition in site.partitions.items():
        if partition.default_without_gpus and partition.min_gpus:
            fact = f"min_gpus = {partition.min_gpus} excludes jobs without GPUs"
            yield Fault(("partitions", name, "default_without_gpus"), fact, "Correct one of them.")


_PAIRS = (("min_gpus", "max_gpus"), ("min_nodes", "max_nodes"), ("min_time", "max_time"))


def limits_exclude_each_other(site: Site) -> Iterator[Fault]:
    """A minimum of the site, a partition or a QoS above a maximum of another that holds for the same job."""
    names = (site.default_qos, gpu_partitions(site))
    for qos, partition in product(*(found or (None,) for found in names)):
        limits = place_of(site, partition, qos=qos).limits
        for (low, lower), (high, upper), (least, most) in product(limits.items(), limits.items(), _PAIRS):
            minimum, maximum = _number(lower, least), _number(upper, most)
            if low != high and minimum is not None and maximum is not None and minimum > maximum:
                over = f"{most} {getattr(upper, most)} of {high}"
                fact = f"{least} {getattr(lower, least)} of {low} exceeds {over}"
                yield Fault((*_keys_of(low), least), fact, "Correct one of them.")


def too_few_nodes_for_the_least_gpus(site: Site) -> Iterator[Fault]:
    """A least number of GPUs that the most nodes do not have."""
    for name in gpu_partitions(site):
        place = place_of(site, name)
        most = [limits.max_nodes for limits in place.limits.values() if limits.max_nodes]
        for source, limits in place.limits.items():
            if limits.min_gpus and most and place.node.gpus and limits.min_gpus > min(most) * place.node.gpus:
                fact = f"{limits.min_gpus} GPUs do not fit in {min(most)} nodes of {place.node.gpus}"
                yield Fault((*_keys_of(source), "min_gpus"), fact, "Correct one of them.")


def default_qos_over_partition(site: Site) -> Iterator[Fault]:
    """A default QoS that allows more time than each default partition, which limits it all the same."""
    limits = [units.time_limit(site.partitions[name].max_time) for name in site.default_partitions]
    most = max((limit for limit in limits if limit is not None), default=None)
    if most is None or None in limits:
        return
    for name in site.default_qos:
        qos = site.qos[name]
        if not qos.replaces_partition_limits and (units.time_limit(qos.max_time) or 0) > most:
            fact = f"{qos.max_time} is more than any default partition allows"
            hint = "Lower it, or set replaces_partition_limits = true if Slurm has OverPartQOS."
            yield Fault(("qos", name, "max_time"), fact, hint)


def default_time_out_of_limits(site: Site) -> Iterator[Fault]:
    """A default time that is above or below a limit of the default place."""
    wanted = units.time_limit(site.time)
    if wanted is None:
        return
    for source, limits in next(places_of(site)).limits.items():
        least, most = units.time_limit(limits.min_time), limits.seconds_for(1)
        if most is not None and wanted > most:
            yield Fault(("time",), f"{site.time} exceeds {limits.time_for(1)} of {source}", "Lower it.")
        if least is not None and wanted < least:
            yield Fault(("time",), f"{site.time} is below {limits.min_time} of {source}", "Raise it.")


def type_in_no_partition(site: Site) -> Iterator[Fault]:
    """A GPU type that no partition has, where each names its type."""
    types = {site.partitions[name].gpu_type for name in gpu_partitions(site)}
    for name in site.gpu.types if types and None not in types else ():
        if name not in types:
            fact = "no partition has this GPU type"
            yield Fault(("gpu", "types", name), fact, "Set it as gpu_type of a partition, or remove it.")


def required_type_without_default(site: Site) -> Iterator[Fault]:
    """Several GPU types, of which every job must name one."""
    undecided = [name for name in gpu_partitions(site) or (None,) if not place_of(site, name).gpu_type]
    if site.gpu.type_required and len(site.gpu.types) > 1 and undecided:
        fact = f"a job must name one of several types, and none is the default: {listed(site.gpu.types)}"
        yield Fault(("gpu", "type_required"), fact, "Set default_type, or gpu_type of each partition.")


def type_without_request(site: Site) -> Iterator[Fault]:
    """A type that is required in a request that the site refuses."""
    if site.gpu.type_required and site.gpu.request == "none":
        fact = "a job must name a GPU type, and the site refuses every GPU request"
        yield Fault(("gpu", "type_required"), fact, "Correct one of them.")


def unreachable_settings(site: Site) -> Iterator[Fault]:
    """Conditions of `[when]` that no job meets."""
    for key, table in site.when.items():
        for condition, fact in _unmet(site, table):
            yield Fault(("when", key, condition), fact, "Correct the conditions, or the fact.")


def _unmet(site: Site, table: When) -> Iterator[tuple[str, str]]:
    """The conditions of a table that no job meets, each with the reason."""
    names = (table.partition,) if table.partition else _suitable(site, table)
    partitions = [site.partitions[name] for name in names]
    if table.has_gpus and partitions and not any(partition.has_gpus for partition in partitions):
        yield "partition", "the partition has no GPUs"
    if table.gpu_type and not {None, table.gpu_type} & {
        found.gpu_type for found in partitions or [Partition()]
    }:
        yield "gpu_type", f"no GPU of {listed(names)} has this type"
    if table.qos and table.qos not in site.qos:
        yield "qos", f"the profile does not list the QoS {table.qos!r}"
    places = [place_of(site, name, with_gpus=table.has_gpus is not False) for name in names or (None,)]
    if table.nodes == "several" and all(map(_is_one_node, places)):
        yield "nodes", "the limits allow no job on several nodes"
    if table.whole_nodes is not None and not table.gpu_type and not any(place.node.gpus for place in places):
        yield "whole_nodes", "the profile does not state how many GPUs a node has"


def _suitable(site: Site, table: When) -> tuple[str, ...]:
    """The partitions of the jobs that a table may be for."""
    of_gpus = gpu_partitions(site) if table.has_gpus is not False else ()
    return (*of_gpus, *(cpu_partitions(site) if not table.has_gpus else ()))


def _is_one_node(place: Place) -> bool:
    return any(limits.max_nodes == 1 for limits in place.limits.values())


def qos_of_unknown_partitions(site: Site) -> Iterator[Fault]:
    """Partitions of a QoS that the profile does not list."""
    for name, qos in site.qos.items():
        for partition in qos.partitions if site.partitions else ():
            if partition not in site.partitions:
                fact = f"there is no partition {partition!r}"
                yield Fault(("qos", name, "partitions"), fact, "Correct the name, or add its table.")


def memory_without_request(site: Site) -> Iterator[Fault]:
    """Memory for each GPU where the site refuses every memory request."""
    if site.memory.form == "none" and site.memory.per_gpu:
        fact = 'it has no effect with form = "none", with which jobs request no memory'
        yield Fault(("memory", "per_gpu"), fact, "Remove it, or correct form.")


def software_from_the_internet(site: Site) -> Iterator[Fault]:
    """A Python environment or an image that nodes without the internet cannot fetch."""
    if site.internet != "no":
        return
    fact = 'it needs the internet, and internet = "no" says that compute nodes do not reach it'
    if (site.python_env or "").partition(":")[0] == "uv":
        yield Fault(("python_env",), fact, "Write venv:FOLDER or none, or correct internet.")
    for keys, image in _images(site):
        if "://" in image:  # a registry
            yield Fault(keys, fact, "Name a file that was fetched on a login node, or correct internet.")


def _images(site: Site) -> Iterator[tuple[tuple[str, ...], str]]:
    container = site.container or Container()
    yield ("container", "image"), container.image or ""
    for name, other in container.engines.items():
        yield ("container", "engines", name, "image"), other.image or ""


def fewer_cpus_than_gpus(site: Site) -> Iterator[Fault]:
    """Nodes with fewer CPUs than GPUs, of which each rank needs one."""
    nodes: dict[tuple[str, ...], Node] = {("node",): site.node}
    nodes |= {("gpu", "types", name): place_of(site, gpu_type=name).node for name in site.gpu.types}
    nodes |= {("partitions", name, "node"): place_of(site, name).node for name in gpu_partitions(site)}
    reported: set[Node] = set()
    for keys, node in nodes.items():
        if node.cpus and node.gpus and node.cpus < node.gpus and node not in reported:
            reported.add(node)
            fact = f"{node.cpus} CPUs are fewer than {node.gpus} GPUs, of which each needs one at least"
            yield Fault((*keys, "cpus"), fact, "Correct cpus or gpus.")


def unknown_rates(site: Site) -> Iterator[Fault]:
    """Rates of partitions, QoS or GPU types that the profile does not list."""
    known = {**site.partitions, **site.qos}
    for name in site.charge.rates if site.charge and known else ():
        if name not in {**known, **site.gpu.types}:
            fact = f"there is no partition, QoS or GPU type {name!r}"
            yield Fault(("charge", "rates", name), fact, "Correct the name, or add its table.")


def notes_of_unset_variables(site: Site) -> Iterator[Fault]:
    """Reasons for variables that the profile does not set, and required ones without a value."""
    variables = {name for values in site.env.groups.values() for name in values}
    variables |= {name for table in site.when.values() for name in (*table.env, *table.task_env)}
    fact, hint = "the profile does not set this variable", "Remove it."
    for name in site.env.notes.keys() - variables:
        yield Fault(("env", "notes", name), fact, hint)
    for name in set(site.env.required) - variables:
        yield Fault(("env", "required"), f"{fact}: {name}", hint)


def facts_without_source(site: Site) -> Iterator[Fault]:
    """Facts that no table of `[sources]` lists; one fault for each table of the profile."""
    tables: dict[str, list[str]] = {}
    for key in site.stated:
        is_empty = isinstance(getattr(site, key, None), Fact)
        if not is_empty and site.source_of(key) is None:
            tables.setdefault(key.partition(".")[0], []).append(key)
    for table, missing in tables.items():
        fact = f"no source supports {listed(missing)}"
        yield Fault((table,), fact, "Add the key or its table to `facts` of a table [sources.NAME].")


CHECKS: tuple[Callable[[Site], Iterator[Fault]], ...] = (
    unknown_nodes,
    no_default_partition,
    default_for_no_gpu_job,
    default_without_gpus_needs_some,
    limits_exclude_each_other,
    too_few_nodes_for_the_least_gpus,
    default_qos_over_partition,
    default_time_out_of_limits,
    type_in_no_partition,
    required_type_without_default,
    type_without_request,
    unreachable_settings,
    qos_of_unknown_partitions,
    memory_without_request,
    software_from_the_internet,
    fewer_cpus_than_gpus,
    unknown_rates,
    notes_of_unset_variables,
    facts_without_source,
)


def _number(limits: Limits, field: str) -> int | None:
    value = getattr(limits, field)
    return units.time_limit(value) if field.endswith("_time") else value


_TABLES = {"partition": "partitions", "qos": "qos"}


def _keys_of(source: str) -> tuple[str, ...]:
    """The keys of the table that a source of limits names, such as `partition a` of a place."""
    kind, _, name = source.partition(" ")
    return (_TABLES[kind], name) if name else ("limits",)


_LEAST_WITHOUT_UNIT = 4096
"""MiB. Slurm reports the memory of a node in MiB, such as 515000, so a large number without a unit is right;
a smaller one is in gigabytes."""


def unreadable(site: Site) -> Iterator[Fault]:
    """Times and sizes that are not valid."""
    for keys, text in _times(site):
        yield from _unless(units.time_limit, keys, text, "a Slurm time", "1-12:00:00 or UNLIMITED")
        if hours := units.hours_as_minutes(text):
            hint = f"Write {hours}:00:00 for hours, or {units.canonical_time(units.seconds(text))}."
            yield Fault(keys, f"{text!r} is {hours} minutes", hint)
    for keys, text in _sizes(site):
        yield from _unless(units.megabytes, keys, text, "a size", "64G")
        if text.isdecimal() and int(text) < _LEAST_WITHOUT_UNIT:
            yield Fault(keys, f"{text!r} is {text}M, which no node has", f"Write {text}G for gigabytes.")


def _unless(
    read: Callable[[str], Any], keys: tuple[str, ...], text: str, what: str, example: str
) -> Iterator[Fault]:
    try:
        read(text)
    except ValueError:
        yield Fault(keys, f"{text!r} is not {what}", f"Write one such as {example}.")


def _times(site: Site) -> Iterator[tuple[tuple[str, ...], str]]:
    yield from _texts((), site, "time")
    for keys, limits in _limits(site):
        yield from _texts(keys, limits, "max_time", "min_time")
        yield from (((*keys, "max_time_by_nodes"), limit.time) for limit in limits.max_time_by_nodes)


def _limits(site: Site) -> Iterator[tuple[tuple[str, ...], Limits]]:
    yield ("limits",), site.limits
    yield from ((("partitions", name), partition) for name, partition in site.partitions.items())
    yield from ((("qos", name), qos) for name, qos in site.qos.items())


def _sizes(site: Site) -> Iterator[tuple[tuple[str, ...], str]]:
    yield from _texts(("memory",), site.memory, "per_gpu")
    nodes: dict[tuple[str, ...], Node | None] = {("node",): site.node, ("cpu_node",): site.cpu_node}
    nodes |= {("gpu", "types", name): kind for name, kind in site.gpu.types.items()}
    nodes |= {("partitions", name, "node"): part.node for name, part in site.partitions.items()}
    for keys, node in nodes.items():
        yield from _texts(keys, node or Node(), "memory", "memory_per_gpu")
    for keys, limits in _limits(site):
        yield from _texts(keys, limits, "max_memory")


def _texts(keys: tuple[str, ...], table: Fact, *names: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """The values that a table states under these names."""
    yield from (((*keys, name), text) for name in names if (text := getattr(table, name)) is not None)


def excessive(site: Site) -> Iterator[Fault]:
    """Counts and times that exceed another fact, of a site whose times and sizes are valid."""
    yield from _ranges(site)
    yield from _shares(site)
    yield from _default_time(site)


def _ranges(site: Site) -> Iterator[Fault]:
    """Limits that no job can meet."""
    for keys, limits in _limits(site):
        for least, most in _PAIRS:
            low, high = _number(limits, least), _number(limits, most)
            if low is not None and high is not None and low > high:
                yield Fault((*keys, least), "it is above the maximum", "Correct one of them.")
        nodes = [limit.nodes for limit in limits.max_time_by_nodes]
        if nodes != sorted(nodes):
            fact = "the nodes do not increase"
            yield Fault((*keys, "max_time_by_nodes"), fact, "Sort the entries by nodes.")


def _shares(site: Site) -> Iterator[Fault]:
    """CPUs and memory per GPU, times the GPUs of a node, that exceed those of the node."""
    for name, node in {place.node_name: place.node for place in _places(site)}.items():
        cpus = node.cpus_per_gpu or site.cpu.per_gpu
        memory = node.memory_per_gpu or site.memory.per_gpu
        if cpus and node.gpus and node.cpus and cpus * node.gpus > node.cpus:
            yield _too_much("cpu", f"{cpus} CPUs", node.gpus, f"{cpus * node.gpus}", name, f"{node.cpus}")
        if memory and node.gpus and node.memory:
            total = units.megabytes(memory) * node.gpus
            if total > units.megabytes(node.memory):
                yield _too_much("memory", memory, node.gpus, units.canonical_size(total), name, node.memory)


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
    seconds = units.time_limit(site.time)
    if seconds is not None and most is not None and seconds > most:
        limit = site.partitions[name or ""].time_for(1)
        fact = f"{site.time} is longer than the default partition {name} allows: {limit}"
        yield Fault(("time",), fact, f"Write at most {limit}.")
