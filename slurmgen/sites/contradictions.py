"""Strict checks of a valid profile: facts that contradict each other, have no effect, or lack a source.

Each function is one check. A profile with such a fault still gives scripts, but perhaps wrong ones.
"""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import msgspec

from slurmgen.sites.fault import Fault
from slurmgen.sites.model import Container, Limits, Node, Partition, Site, When
from slurmgen.sites.nodes import Place, cpu_partitions, gpu_partitions, place_of, places_of
from slurmgen.slurm import durations
from slurmgen.text import listed

_NO_SOURCE_NEEDED = {"name", "title", "extends", "sources"}


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
    limits = [durations.limit(site.partitions[name].max_time) for name in site.default_partitions]
    most = max((limit for limit in limits if limit is not None), default=None)
    if most is None or None in limits:
        return
    for name in site.default_qos:
        qos = site.qos[name]
        if not qos.replaces_partition_limits and (durations.limit(qos.max_time) or 0) > most:
            fact = f"{qos.max_time} is more than any default partition allows"
            hint = "Lower it, or set replaces_partition_limits = true if Slurm has OverPartQOS."
            yield Fault(("qos", name, "max_time"), fact, hint)


def default_time_out_of_limits(site: Site) -> Iterator[Fault]:
    """A default time that is above or below a limit of the default place."""
    wanted = durations.limit(site.time)
    if wanted is None:
        return
    for source, limits in next(places_of(site)).limits.items():
        least, most = durations.limit(limits.min_time), limits.seconds_for(1)
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
    """Reasons for variables that the profile does not set."""
    groups = [site.env.always, site.env.multi_gpu, site.env.multi_node, site.env.container, site.env.task]
    variables = {name for group in groups for name in group}
    variables |= {name for table in site.when.values() for name in (*table.env, *table.task_env)}
    for name in site.env.notes.keys() - variables:
        yield Fault(("env", "notes", name), "the profile does not set this variable", "Remove it.")


def facts_without_source(site: Site) -> Iterator[Fault]:
    """Facts that no table of `[sources]` lists; one fault for each table of the profile."""
    for table, value in msgspec.to_builtins(site).items():
        missing = [key for key in _leaves(value, table) if site.source_of(key) is None]
        if value != {} and missing and table not in _NO_SOURCE_NEEDED:
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
    return durations.limit(value) if field.endswith("_time") else value


_TABLES = {"partition": "partitions", "qos": "qos"}


def _keys_of(source: str) -> tuple[str, ...]:
    """The keys of the table that a source of limits names, such as `partition a` of a place."""
    kind, _, name = source.partition(" ")
    return (_TABLES[kind], name) if name else ("limits",)


def _leaves(value: Any, key: str) -> Iterator[str]:
    """The keys of all facts in a table."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, f"{key}.{name}")
    else:
        yield key
