"""Which nodes and limits a job gets."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct, structs

from slurmgen.request.model import Request, merge
from slurmgen.sites.model import GpuType, LaunchOptions, Limits, Modules, Node, Partition, Site, When
from slurmgen.slurm import units
from slurmgen.slurm.sbatch_options import SbatchOptions


class Place(Struct, frozen=True):
    """A kind of node on a site, and the limits that hold there."""

    partitions: tuple[str, ...]
    qos: str | None
    gpu_type: str | None
    "The type of its GPUs, if known."
    requested_type: str | None
    "The type that the GPU request names."
    constraint: str | None
    "The constraint that selects the type."
    node: Node
    node_name: str
    "The node's name in a message."
    limits: dict[str, Limits]
    "By their source, such as `partition accel`."


def place_of(
    site: Site,
    partition: str | None = None,
    gpu_type: str | None = None,
    qos: str | None = None,
    *,
    with_gpus: bool = True,
) -> Place:
    """The place of a job, which must fit each of its partitions. Facts that the profile lacks are unset.

    Args:
        partition: as in --partition, of which several may be named; the site's default for GPUs if None.
        gpu_type: the GPU type; the only one if None and the site requires one.
    """
    names = partitions_of(site, partition) if partition or with_gpus else ()
    kind = (gpu_type or site.type_of(names) or default_type(site)) if with_gpus else None
    requested, constraint = _selection(site, names, kind, gpu_type)
    nodes = [_node(site, name, kind, with_gpus=with_gpus) for name in names or (None,)]
    node = _smallest(nodes)
    smallest = next((name for name, one in zip(names, nodes, strict=False) if one.gpus == node.gpus), None)
    return Place(
        partitions=names,
        qos=qos,
        gpu_type=kind,
        requested_type=requested,
        constraint=constraint,
        node=node,
        node_name=_name(site, smallest, kind),
        limits=_limits(site, names, qos),
    )


def places_of(
    site: Site,
    partition: str | None = None,
    gpu_type: str | None = None,
    qos: str | None = None,
    *,
    with_gpus: bool = True,
) -> Iterator[Place]:
    """The places that a job may take, in order of preference; defaults replace what it does not name."""
    suitable = _suitable(site, gpu_type, qos) if with_gpus else cpu_partitions(site, qos)
    for name in (partition,) if partition else suitable or (None,):
        of_default = partitions_of(site, name) if name or with_gpus else ()
        accepted = tuple(each for each in site.default_qos if accepts(site, each, of_default))
        for quality in (qos,) if qos else accepted or (None,):
            yield place_of(site, name, gpu_type, quality, with_gpus=with_gpus)


def accepts(site: Site, qos: str, partitions: Iterable[str]) -> bool:
    """Whether all these partitions accept a QoS, as far as the profile says."""
    accepting = site.qos[qos].partitions if qos in site.qos else ()
    return not accepting or all(name in accepting for name in partitions)


def _suitable(site: Site, gpu_type: str | None, qos: str | None) -> tuple[str, ...]:
    """The default partitions with GPUs of that type that accept the QoS; else any such partition.

    Partitions of that very type come before those of which the profile states no type.
    """
    with_gpus = gpu_partitions(site)

    def fits(name: str) -> bool:
        of_type = gpu_type is None or site.partitions[name].gpu_type in (None, gpu_type)
        return of_type and name in with_gpus and (qos is None or accepts(site, qos, [name]))

    defaults = tuple(filter(fits, site.default_partitions))
    # A cluster whose default partition has no GPUs refuses every GPU job that names no partition.
    has_default = any(name in with_gpus for name in site.default_partitions) or not site.default_partitions
    selects = gpu_type or not has_default or (qos in site.qos and site.qos[qos].partitions)
    found = defaults or (tuple(filter(fits, with_gpus)) if selects else ())
    return tuple(
        sorted(found, key=lambda name: gpu_type is not None and site.partitions[name].gpu_type != gpu_type)
    )


def _selection(
    site: Site, names: Sequence[str], kind: str | None, requested: str | None
) -> tuple[str | None, str | None]:
    """The type for the GPU request and the constraint: either selects the type, where anything needs to."""
    selected = site.gpu.types[kind] if kind in site.gpu.types else GpuType()
    if selected.constraint or selected.sbatch:
        return None, selected.constraint
    of_partition = kind is not None and kind == site.type_of(names)  # all of its GPUs are of that type
    named = requested is not None and not of_partition
    needed = named or site.gpu.type_required or kind == site.gpu.default_type
    return (kind if needed else None), None


def partitions_of(site: Site, partition: str | None) -> tuple[str, ...]:
    """The named partitions, or else the site's default."""
    partition = partition or site.default_partition
    return tuple(name.strip() for name in partition.split(",")) if partition else ()


def default_type(site: Site) -> str | None:
    """The GPU type of jobs that name none: the profile's, or the only one where the site requires one."""
    types = list(site.gpu.types)
    only = types[0] if site.gpu.type_required and len(types) == 1 else None
    return site.gpu.default_type or only


def gpu_partitions(site: Site) -> tuple[str, ...]:
    """The partitions that have GPUs, as far as the profile says."""
    return tuple(name for name, partition in site.partitions.items() if partition.has_gpus)


def cpu_partitions(site: Site, qos: str | None = None) -> tuple[str, ...]:
    """The partitions of jobs without GPUs that name none, of those that accept the QoS."""
    names = (name for name, partition in site.partitions.items() if partition.is_default_without_gpus)
    return tuple(name for name in names if qos is None or accepts(site, qos, [name]))


def gives_whole_nodes(site: Site, place: Place) -> bool:
    """Whether each job of a place gets whole nodes."""
    known = [site.partitions[name] for name in place.partitions if name in site.partitions]
    return bool(known) and all(partition.whole_nodes for partition in known)


def over(base: Node, own: Node) -> Node:
    """The node `base` with the facts in which `own` differs."""
    fields = Node.__struct_fields__
    return Node(**{field: getattr(own, field) or getattr(base, field) for field in fields})


def _node(site: Site, partition: str | None, gpu_type: str | None, *, with_gpus: bool) -> Node:
    known = site.partitions.get(partition or "", Partition())
    own = known.node or Node()
    if not known.has_gpus:
        return over(site.cpu_node, own)  # `[node]` describes the GPU nodes
    node = over(site.node, own)
    if not with_gpus and partition not in site.partitions:
        return over(node, site.cpu_node)
    kind = site.gpu.types.get(gpu_type or known.gpu_type or "")
    if kind and kind.gpus and node.gpus and kind.gpus != node.gpus:
        node = Node()  # another machine: its CPUs and memory are those of the type, or unknown
    return over(node, kind) if kind else node


def _smallest(nodes: Sequence[Node]) -> Node:
    return Node(
        gpus=min((node.gpus for node in nodes if node.gpus), default=None),
        cpus=min((node.cpus for node in nodes if node.cpus), default=None),
        memory=_least(node.memory for node in nodes),
        cpus_per_gpu=min((node.cpus_per_gpu for node in nodes if node.cpus_per_gpu), default=None),
        memory_per_gpu=_least(node.memory_per_gpu for node in nodes),
    )


def _least(memory: Iterable[str | None]) -> str | None:
    return min((size for size in memory if size), key=units.megabytes, default=None)


def _limits(site: Site, partitions: Sequence[str], qos: str | None) -> dict[str, Limits]:
    found: dict[str, Limits] = {site.name: site.limits} if site.limits != Limits() else {}
    quality = site.qos.get(qos or "")
    for name in partitions:
        if name in site.partitions:
            limits: Limits = site.partitions[name]
            replaced = quality is not None and quality.replaces_partition_limits and limits.has_gpus
            found[f"partition {name}"] = _without(limits, quality) if quality and replaced else limits
    return found | ({f"qos {qos}": quality} if quality else {})


def _without(limits: Limits, replaced_by: Limits) -> Limits:
    fields = Limits.__struct_fields__
    replaced = {field for field in fields if getattr(replaced_by, field) not in (None, ())}
    if replaced & {"max_time", "max_time_by_nodes"}:
        replaced |= {"max_time", "max_time_by_nodes"}
    return Limits(**{field: getattr(limits, field) for field in fields if field not in replaced})


def _name(site: Site, partition: str | None, gpu_type: str | None) -> str:
    if gpu_type in site.gpu.types:
        return f"{site.name} with {gpu_type} GPUs"
    has_own = partition in site.partitions and site.partitions[partition].node
    return f"{site.name}'s partition {partition}" if has_own else site.name


T = TypeVar("T")


class Shape(Struct, frozen=True):
    """The facts of a job that the conditions of a profile depend on."""

    nodes: int
    gpus_per_node: int
    task_per_gpu: bool
    container: bool = False


class Settings(Struct, frozen=True):
    """All that a profile sets for one job."""

    sbatch: SbatchOptions
    modules: Modules
    env: dict[str, str]
    task_env: dict[str, str]
    launch: LaunchOptions
    account_suffix: str
    refusals: dict[str, str] = {}
    "Why the site refuses the job, by the name of the table."
    notes: dict[str, str] = {}
    "What users should know about the job, by the name of the table."


def settings_of(site: Site, place: Place, shape: Shape) -> Settings:
    """The settings of a job; of several values of one key, the last table's counts."""
    named = {name: table for name, table in site.when.items() if _applies(table, place, shape)}
    tables = tuple(named.values())
    kind = site.gpu.types.get(place.gpu_type or "")
    return Settings(
        sbatch=_merged(site.sbatch, kind.sbatch if kind else {}, *(table.sbatch for table in tables)),
        modules=structs.replace(
            site.modules,
            init=_joined(site.modules.init, *(table.modules.init for table in tables)),
            load=_joined(site.modules.load, *(table.modules.load for table in tables)),
        ),
        env=_merged(*_groups(site, shape), *(table.env for table in tables)),
        task_env=_merged(site.env.task, *(table.task_env for table in tables)),
        launch=_launch(site.launch, *(table.launch for table in tables)),
        account_suffix="".join(table.account_suffix for table in tables),
        refusals={name: table.refuse for name, table in named.items() if table.refuse},
        notes={name: table.note for name, table in named.items() if table.note},
    )


def _applies(table: When, place: Place, shape: Shape) -> bool:
    """Whether a job meets all conditions of a table; a fact that the profile lacks meets none."""
    facts = {
        "nodes": "one" if shape.nodes == 1 else "several",
        "tasks": "per-gpu" if shape.task_per_gpu else "per-node",
        "whole_nodes": None if place.node.gpus is None else shape.gpus_per_node == place.node.gpus,
        "has_gpus": shape.gpus_per_node > 0,
        "several_gpus": shape.nodes * shape.gpus_per_node > 1,
        "gpu_type": place.gpu_type,
        "qos": place.qos,
        "container": shape.container,
    }
    return all(getattr(table, name) in (None, value) for name, value in facts.items()) and (
        table.partition is None or set(place.partitions) == {table.partition}
    )


def _groups(site: Site, shape: Shape) -> Iterator[dict[str, str]]:
    yield site.env.always
    if shape.nodes * shape.gpus_per_node > 1:
        yield site.env.multi_gpu
    if shape.nodes > 1 and shape.gpus_per_node:
        yield site.env.multi_node


def _launch(*tables: LaunchOptions) -> LaunchOptions:
    return LaunchOptions(
        srun=_joined(*(table.srun for table in tables)),
        torchrun=next((table.torchrun for table in reversed(tables) if table.torchrun), ()),
        torchrun_options=_joined(*(table.torchrun_options for table in tables)),
        mpi=next((table.mpi for table in reversed(tables) if table.mpi), None),
        before=_joined(*(table.before for table in tables)),
        before_on_each_node=_joined(*(table.before_on_each_node for table in tables)),
    )


def _merged(*tables: dict[str, T]) -> dict[str, T]:
    return {key: value for table in tables for key, value in table.items()}


def _joined(*parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for part in parts for word in part)


SIZES = {"1gpu": "one GPU", "node": "one node", "2nodes": "two nodes"}
SIX_SHAPES = (
    ("python", "1gpu"),
    ("ddp", "node"),
    ("lightning", "node"),
    ("accelerate", "node"),
    ("ddp", "2nodes"),
    ("lightning", "2nodes"),
)
"Framework and size. They cover every launcher, and each way of starting ranks on several nodes."
_GPUS = 4
"GPUs of a node, where the profile does not say."
_ACCOUNT = "project1"
_NO_OPTIONS = Request()


def shape_request(site: Site, framework: str, size: str, options: Request = _NO_OPTIONS) -> Request:
    """The request of a shape: what the site requires gets a value, all else is left to its defaults.

    Args:
        size: a key of SIZES.
        options: what the user requests besides, such as a partition.
    """
    places = places_of(site, options.partition, options.gpu_type, options.qos)
    known = max((place.node.gpus or 0 for place in places), default=0)
    per_node = known or _GPUS
    gpus, nodes = {
        "1gpu": (1, None),
        "node": (per_node, None),
        "2nodes": (2 * per_node, None if known else 2),
    }[size]
    qos = next(iter(site.qos), None) if site.qos_required and not site.default_qos else None
    account = _ACCOUNT if site.account.required else None
    shape = Request(framework=framework, gpus=gpus, nodes=nodes, account=account, qos=qos)
    return merge(shape, options)
