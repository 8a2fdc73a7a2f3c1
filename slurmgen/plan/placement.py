"""Where a job runs on a site: partition, GPU type and QoS, checked against the profile."""

import re
from collections.abc import Collection, Iterable, Sequence

from slurmgen.errors import RequestError, contradiction, did_you_mean
from slurmgen.field_names import option
from slurmgen.hints import Hint, leave_it_out, leave_out, offered
from slurmgen.plan.limits import fits, has_room, most_nodes, partitions_for
from slurmgen.request import Request
from slurmgen.sites.model import Site
from slurmgen.sites.nodes import (
    Place,
    accepts,
    default_type,
    gpu_partitions,
    partitions_of,
    places_of,
)

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
        raise RequestError(f"{site.name} needs an account", f"Add {option('account', 'NAME')}.{hint}")
    useful = partitions_for(site, gpus) or tuple(site.partitions)
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
    large = [place for place in places if has_room(place, request, gpus)]
    fitting = (place for place in large if fits(place, request, gpus))
    place = next(fitting, large[-1] if large else max(reversed(places), key=most_nodes))
    _check_accepted(request, site, place, gpus)
    return place


def _check_accepted(request: Request, site: Site, place: Place, gpus: int) -> None:
    """Refuse the QoS of a job that names no partition, if no suitable partition accepts it."""
    of_qos = site.qos[place.qos].partitions if place.qos in site.qos else ()
    is_accepted = place.partitions and accepts(site, place.qos or "", place.partitions)
    if request.partition or not of_qos or is_accepted:
        return
    useful = [name for name in of_qos if not site.partitions or name in partitions_for(site, gpus)]
    suitable = "a GPU partition" if gpus else "a partition for jobs without GPUs"
    of_type = f" with {request.gpu_type}" if request.gpu_type and site.partitions else ""
    accepted = f"QoS {place.qos} is accepted by {', '.join(of_qos)} only"
    raise RequestError(
        f"{accepted}: not {suitable}{of_type} of {site.name}"
        if site.partitions
        else f"{accepted}, and the job names no partition",
        _other_partition(useful),
        "qos",
    )


def _other_partition(names: Sequence[str]) -> Hint:
    """The hint to use a partition that the QoS accepts, or another QoS."""
    if not names:
        return leave_it_out("qos", text=f"Name another {option('qos')}.")
    named = option("partition", " or ".join(names))
    return Hint(f"Name {named}, or another {option('qos')}.", offered("partition", *names))


def _check_without_gpus(request: Request) -> None:
    """Refuse options of GPUs for a job without GPUs."""
    if request.gpu_type:
        raise contradiction(option("gpus", 0), option("gpu_type"))
    if request.cpus_per_gpu:
        fact = f"{option('cpus_per_gpu')} has no effect with {option('gpus', 0)}"
        raise RequestError(fact, leave_it_out("cpus_per_gpu", text=f"Use {option('cpus')}."))


def check_partition(site: Site, place: Place, gpus: int) -> None:
    """Refuse a job without GPUs for which the profile knows no partition.

    Raises:
        RequestError: the profile has partitions, and none for such jobs.
    """
    if site.partitions and not place.partitions and not gpus:
        raise RequestError(
            f"the profile of {site.name} has no partition without GPUs",
            "If the site has one, add it to the profile, with `max_gpus = 0`.",
            "gpus",
        )


def _check_required(request: Request, site: Site, gpus: int) -> None:
    if gpus and site.gpu.type_required and not (request.gpu_type or default_type(site)):
        raise RequestError(f"{site.name} needs a GPU type", _one_of("gpu_type", site.gpu.types))
    refuses = not gpus and any(table.refuse and table.has_gpus is False for table in site.when.values())
    if site.qos_required and not (request.qos or site.default_qos) and not refuses:
        raise RequestError(f"{site.name} needs a QoS", _one_of("qos", site.qos))


def _one_of(field: str, names: Collection[str]) -> Hint:
    known = f", one of {', '.join(names)}" if names else ""
    return Hint(f"Add {option(field)}{known}.", offered(field, *names))


def _check_types(request: Request, site: Site, partitions: Iterable[str]) -> None:
    """Refuse a GPU type that the partitions do not have, and partitions of different types."""
    of_each = {name: site.partitions[name].gpu_type for name in partitions if name in site.partitions}
    different = {kind for kind in of_each.values() if kind}
    if len(different) > 1:
        raise RequestError(
            f"{option('partition', request.partition)} has GPUs of several types: "
            f"{', '.join(sorted(different))}",
            "Name partitions with one type.",
        )
    for name, kind in of_each.items():
        if request.partition and request.gpu_type and kind not in (None, request.gpu_type):
            raise RequestError(
                f"partition {name} has {kind} GPUs, not {request.gpu_type}",
                leave_out("partition", "gpu_type"),
            )
    if not request.gpu_type:
        return
    having = {site.partitions[name].gpu_type for name in gpu_partitions(site)}
    if not request.partition and having and not {None, request.gpu_type} & having:
        types = sorted(map(str, having))
        raise RequestError(
            f"no partition of {site.name} has {request.gpu_type} GPUs",
            Hint(f"GPU types of its partitions: {', '.join(types)}.", offered("gpu_type", *types)),
        )
    if site.gpu.request == "none" and not site.gpu.types:
        raise RequestError(f"{site.name} accepts no GPU type", leave_out("gpu_type"))


def _check_qos(request: Request, site: Site, partitions: Iterable[str]) -> None:
    """Refuse a QoS that the partitions do not accept."""
    if request.partition and request.qos and not accepts(site, request.qos, partitions):
        raise RequestError(
            f"partition {request.partition} does not accept QoS {request.qos}",
            _other_partition(site.qos[request.qos].partitions),
        )


def _check_words(request: Request, partitions: Iterable[str]) -> None:
    named = (("account", request.account), ("qos", request.qos), ("gpu_type", request.gpu_type))
    words = [(key, word, _WORD) for key, word in named] + [
        ("partition", name, _PARTITION) for name in partitions
    ]
    for key, word, valid in words:
        if word is not None and not valid.fullmatch(word):
            raise RequestError(
                f"{option(key)} {word!r} is not a Slurm name", "Use letters, digits and _ . @ + - only."
            )


def _check_known(
    what: str, name: str | None, known: Collection[str], useful: Iterable[str], site: Site
) -> None:
    """Refuse a name that the profile does not list, where it lists any."""
    if name is not None and known and name not in known:
        field = what.lower().replace(" ", "_")
        raise RequestError(f"{site.name} has no {what} {name!r}", did_you_mean(name, useful, field))
