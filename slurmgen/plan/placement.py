"""Where a job runs on a site: partition, GPU type and QoS, checked against the profile, with their limits."""

import re
from collections.abc import Collection, Iterable, Iterator

from slurmgen.errors import LimitExceeded, RequestError, did_you_mean
from slurmgen.launchers import Launcher
from slurmgen.request import Request
from slurmgen.sites.model import Limits, Node, Site
from slurmgen.sites.nodes import (
    Place,
    accepts,
    cpu_partitions,
    default_type,
    gpu_partitions,
    partitions_of,
    place_of,
    places_of,
)
from slurmgen.slurm import durations, sizes
from slurmgen.text import counted

_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*")
_PARTITION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+:-]*")


def find_place(request: Request, site: Site, gpus: int) -> Place:
    """The place of the job: of the site's defaults, the first whose limits allow it.

    It must fit each of several partitions, as in `a,b`.

    Raises:
        RequestError: the partition, QoS or GPU type is unknown, or the site needs an account or a type.
    """
    partitions = partitions_of(site, request.partition)
    _check_words(request, partitions)
    if site.account.required and not request.account:
        hint = f" {site.account.hint}" if site.account.hint else ""
        raise RequestError(f"{site.name} needs an account", f"Add --account NAME.{hint}")
    useful = _partitions_for(site, gpus) or tuple(site.partitions)
    for name in partitions:
        _check_known("partition", name, site.partitions, useful, site)
    _check_known("QoS", request.qos, site.qos, site.qos, site)
    _check_known("GPU type", request.gpu_type, site.gpu.types, site.gpu.types, site)
    if not gpus:
        _check_without_gpus(request)
    _check_required(request, site, gpus)
    _check_types(request, site, partitions)
    _check_qos(request, site, partitions)
    places = [*places_of(site, request.partition, request.gpu_type, request.qos, with_gpus=gpus > 0)]
    large = [place for place in places if _has_room(place, request, gpus)]
    place = next((place for place in large if _fits(place, request, gpus)), (large or places)[-1])
    _check_accepted(request, site, place, gpus)
    return place


def _check_accepted(request: Request, site: Site, place: Place, gpus: int) -> None:
    """Refuse the QoS of a job that names no partition, if no suitable partition accepts it."""
    of_qos = site.qos[place.qos].partitions if place.qos in site.qos else ()
    is_accepted = place.partitions and accepts(site, place.qos or "", place.partitions)
    if request.partition or not of_qos or is_accepted:
        return
    useful = [name for name in of_qos if not site.partitions or name in _partitions_for(site, gpus)]
    suitable = "a GPU partition" if gpus else "a partition for jobs without GPUs"
    of_type = f" with {request.gpu_type}" if request.gpu_type and site.partitions else ""
    accepted = f"QoS {place.qos} is accepted by {', '.join(of_qos)} only"
    raise RequestError(
        f"{accepted}: not {suitable}{of_type} of {site.name}"
        if site.partitions
        else f"{accepted}, and the job names no partition",
        f"Name --partition {' or '.join(useful)}, or another --qos." if useful else "Name another --qos.",
    )


def _check_without_gpus(request: Request) -> None:
    """Refuse options of GPUs for a job without GPUs."""
    if request.gpu_type:
        raise RequestError("--gpus 0 and --gpu-type exclude each other", "Leave one out.")
    if request.cpus_per_gpu:
        raise RequestError("--cpus-per-gpu has no effect with --gpus 0", "Use --cpus.")


def check_partition(site: Site, place: Place, gpus: int) -> None:
    """Refuse a job without GPUs for which the profile knows no partition.

    Raises:
        RequestError: the profile has partitions, and none for such jobs.
    """
    if site.partitions and not place.partitions and not gpus:
        raise RequestError(
            f"the profile of {site.name} has no partition without GPUs",
            "If the site has one, add it to the profile, with `max_gpus = 0`.",
        )


def _partitions_for(site: Site, gpus: int) -> tuple[str, ...]:
    """The partitions that suit a job with or without GPUs."""
    return gpu_partitions(site) if gpus else cpu_partitions(site)


def _check_required(request: Request, site: Site, gpus: int) -> None:
    if gpus and site.gpu.type_required and not (request.gpu_type or default_type(site)):
        known = f", one of {', '.join(site.gpu.types)}" if site.gpu.types else ""
        raise RequestError(f"{site.name} needs a GPU type", f"Add --gpu-type{known}.")
    refuses = not gpus and any(table.refuse and table.has_gpus is False for table in site.when.values())
    if site.qos_required and not (request.qos or site.default_qos) and not refuses:
        known = f", one of {', '.join(site.qos)}" if site.qos else ""
        raise RequestError(f"{site.name} needs a QoS", f"Add --qos{known}.")


def _check_types(request: Request, site: Site, partitions: Iterable[str]) -> None:
    """Refuse a GPU type that the partitions do not have, and partitions of different types."""
    types = {name: site.partitions[name].gpu_type for name in partitions if name in site.partitions}
    different = {kind for kind in types.values() if kind}
    if len(different) > 1:
        raise RequestError(
            f"--partition {request.partition} has GPUs of several types: {', '.join(sorted(different))}",
            "Name partitions with one type.",
        )
    for name, kind in types.items():
        if request.partition and request.gpu_type and kind not in (None, request.gpu_type):
            raise RequestError(
                f"partition {name} has {kind} GPUs, not {request.gpu_type}",
                "Leave out --partition or --gpu-type.",
            )
    if not request.gpu_type:
        return
    having = {site.partitions[name].gpu_type for name in gpu_partitions(site)}
    if not request.partition and having and not {None, request.gpu_type} & having:
        raise RequestError(
            f"no partition of {site.name} has {request.gpu_type} GPUs",
            f"GPU types of its partitions: {', '.join(sorted(map(str, having)))}.",
        )
    if site.gpu.request == "none" and not site.gpu.types:
        raise RequestError(f"{site.name} accepts no GPU type", "Leave --gpu-type out.")


def _check_qos(request: Request, site: Site, partitions: Iterable[str]) -> None:
    """Refuse a QoS that the partitions do not accept."""
    if request.partition and request.qos and not accepts(site, request.qos, partitions):
        raise RequestError(
            f"partition {request.partition} does not accept QoS {request.qos}",
            f"Name --partition {' or '.join(site.qos[request.qos].partitions)}, or another --qos.",
        )


def _has_room(place: Place, request: Request, gpus: int) -> bool:
    """Whether a place allows so many nodes and GPUs."""
    nodes = _nodes(place, request, gpus)
    return not any(one for limits in place.limits.values() for one in _excess(limits, gpus, nodes))


def _fits(place: Place, request: Request, gpus: int) -> bool:
    """Whether the limits of a place allow the job, and its nodes have the CPUs and the memory."""
    nodes, seconds = _nodes(place, request, gpus), requested_seconds(request)
    in_limits = all(_allows(limits, gpus, nodes, seconds) for limits in place.limits.values())
    return in_limits and _holds(place.node, request)


def _nodes(place: Place, request: Request, gpus: int) -> int:
    return request.nodes or -(-gpus // (place.node.gpus or gpus or 1)) or 1


def _holds(node: Node, request: Request) -> bool:
    """Whether a node has the CPUs and the memory that a request names, as far as it is known."""
    has_cpus = not (node.cpus and request.cpus) or request.cpus <= node.cpus
    return has_cpus and not (node.memory and _megabytes(request.mem) > sizes.megabytes(node.memory))


def _megabytes(text: str | None) -> int:
    """The memory of a request; 0 if it names none, or one that is reported later as wrong."""
    try:
        return sizes.megabytes(text) if text else 0
    except ValueError:
        return 0


def requested_seconds(request: Request) -> int:
    """The time limit of a request; 0 if it names none, or one that is reported later as wrong."""
    try:
        return durations.seconds(request.time) if request.time else 0
    except ValueError:
        return 0


def _excess(limits: Limits, gpus: int, nodes: int) -> Iterator[tuple[str, int, str, int]]:
    """Each number that a job must not have: option, number, what the limit is, and the limit."""
    for key, count, least, most in (
        ("gpus", gpus, limits.min_gpus, limits.max_gpus),
        ("nodes", nodes, limits.min_nodes, limits.max_nodes),
    ):
        if most is not None and count > most:
            yield key, count, "at most", most
        if least is not None and count < least:
            yield key, count, "at least", least


def check_limits(request: Request, site: Site, place: Place, gpus: int, nodes: int) -> None:
    """Refuse more or fewer GPUs or nodes than a job may have.

    Raises:
        LimitExceeded: the job is outside a limit.
        RequestError: the partition has no GPUs.
    """
    for name, limit in place.limits.items():
        if gpus and not limit.has_gpus:
            raise RequestError(
                f"{name} has no GPUs", f"Choose one with GPUs: {', '.join(gpu_partitions(site))}."
            )
        for key, count, bound, value in _excess(limit, gpus, nodes):
            one, several = ("exceeds", "exceed") if bound == "at most" else ("is below", "are below")
            asked = counted(count, "GPU" if key == "gpus" else "node")
            fact = f"{asked} {one if count == 1 else several}"
            others = [*_with_room(request, site, gpus, nodes)] if name.startswith("partition ") else []
            other = f", or use --partition {' or '.join(others)}" if others else ""
            raise LimitExceeded(
                f"{fact} the limit of {name}: {value} per job", f"Ask for {bound} --{key} {value}{other}."
            )


def _with_room(request: Request, site: Site, gpus: int, nodes: int) -> Iterator[str]:
    """The partitions that accept the GPU type and QoS of the request, and whose limits allow that much."""
    for name in _partitions_for(site, gpus):
        partition = site.partitions[name]
        has_type = not request.gpu_type or partition.gpu_type in (None, request.gpu_type)
        has_qos = not request.qos or accepts(site, request.qos, [name])
        holds = _holds(place_of(site, name, with_gpus=gpus > 0).node, request)
        if has_type and has_qos and holds and _allows(partition, gpus, nodes, requested_seconds(request)):
            yield name


def _allows(limits: Limits, gpus: int, nodes: int, seconds: int) -> bool:
    most, least = limits.seconds_for(nodes), durations.limit(limits.min_time)
    in_time = (most is None or seconds <= most) and (least is None or seconds == 0 or seconds >= least)
    return in_time and not any(_excess(limits, gpus, nodes))


def roomier(site: Site, node: Node) -> tuple[str, ...]:
    """GPU types whose nodes have more GPUs than this one."""
    least = node.gpus or 0
    return tuple(name for name, kind in site.gpu.types.items() if least and (kind.gpus or 0) > least)


def check_one_node(request: Request, site: Site, place: Place, launcher: Launcher, gpus: int) -> None:
    """Refuse more GPUs for one process than a node has.

    Raises:
        RequestError: the hint names the GPU types or partitions whose nodes have as many.
    """
    most = place.node.gpus or gpus
    if launcher.max_nodes != 1 or (request.nodes or 1) > 1 or gpus <= most:
        return
    other = [f"--gpu-type {name}" for name, kind in site.gpu.types.items() if (kind.gpus or 0) >= gpus]
    other = other or [
        f"--partition {name}"
        for name in gpu_partitions(site)
        if (place_of(site, name).node.gpus or 0) >= gpus
    ]
    raise RequestError(
        f"{launcher.name} starts one process, and a node of {place.node_name} has {counted(most, 'GPU')}, "
        f"not {gpus}",
        f"Ask for at most --gpus {most}, or use {' or '.join((*other[:3], '--framework ddp'))}.",
    )


def _check_words(request: Request, partitions: Iterable[str]) -> None:
    named = (("account", request.account), ("qos", request.qos), ("gpu-type", request.gpu_type))
    words = [(key, word, _WORD) for key, word in named] + [
        ("partition", name, _PARTITION) for name in partitions
    ]
    for key, word, valid in words:
        if word is not None and not valid.fullmatch(word):
            raise RequestError(
                f"--{key} {word!r} is not a Slurm name", "Use letters, digits and _ . @ + - only."
            )


def _check_known(
    what: str, name: str | None, known: Collection[str], useful: Iterable[str], site: Site
) -> None:
    """Refuse a name that the profile does not list, where it lists any."""
    if name is not None and known and name not in known:
        field = what.lower().replace(" ", "_")
        raise RequestError(f"{site.name} has no {what} {name!r}", did_you_mean(name, useful), field)
