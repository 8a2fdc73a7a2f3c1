"""Where a job runs on a site: partition, GPU type and QoS, checked against the profile, with their limits."""

import re
from collections.abc import Collection, Iterable

from slurmgen.errors import RequestError, did_you_mean
from slurmgen.request import Request
from slurmgen.sites.model import Limits, Node, Site
from slurmgen.sites.nodes import Place, gpu_partitions, only_type, partitions_of, place_of

_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*")


def find_place(request: Request, site: Site) -> Place:
    """The place of the job. It must fit each of several partitions, as in `a,b`.

    Raises:
        RequestError: the partition, QoS or GPU type is unknown, or the site needs an account or a type.
    """
    partitions = partitions_of(site, request.partition)
    _check_words(request, partitions)
    if site.account.required and not request.account:
        hint = f" {site.account.hint}" if site.account.hint else ""
        raise RequestError(f"{site.name} needs an account", f"Add --account NAME.{hint}")
    for name in partitions:
        _check_known("partition", name, site.partitions, gpu_partitions(site), site)
    _check_known("QoS", request.qos, site.qos, site.qos, site)
    _check_known("GPU type", request.gpu_type, site.gpu.types, site.gpu.types, site)
    if site.gpu.type_required and not (request.gpu_type or only_type(site)):
        known = f", one of {', '.join(site.gpu.types)}" if site.gpu.types else ""
        raise RequestError(f"{site.name} needs a GPU type", f"Add --gpu-type{known}.")
    return place_of(site, request.partition, request.gpu_type, request.qos)


def check_limits(site: Site, place: Place, gpus: int, nodes: int) -> None:
    """Refuse more GPUs or nodes than a job may have.

    Raises:
        RequestError: the job exceeds a limit.
    """
    for name, limit in place.limits.items():
        if not limit.has_gpus:
            raise RequestError(
                f"{name} has no GPUs", f"Choose one with GPUs: {', '.join(gpu_partitions(site))}."
            )
        for unit, key, count, most in (
            ("GPUs", "gpus", gpus, limit.max_gpus),
            ("nodes", "nodes", nodes, limit.max_nodes),
        ):
            if most is not None and count > most:
                others = _with_room(site, gpus, nodes) if name.startswith("partition ") else ()
                other = f", or use --partition {' or '.join(others)}" if others else ""
                raise RequestError(
                    f"{count} {unit} exceed the limit of {name}: {most} per job",
                    f"Ask for at most --{key} {most}{other}.",
                )


def _with_room(site: Site, gpus: int, nodes: int) -> tuple[str, ...]:
    """The partitions whose limits allow that much."""

    def fits(limit: Limits) -> bool:
        wanted = ((gpus, limit.max_gpus), (nodes, limit.max_nodes))
        return all(most is None or count <= most for count, most in wanted)

    return tuple(name for name in gpu_partitions(site) if fits(site.partitions[name]))


def roomier(site: Site, node: Node) -> tuple[str, ...]:
    """GPU types whose nodes have more GPUs than this one."""
    least = node.gpus or 0
    return tuple(name for name, kind in site.gpu.types.items() if least and (kind.gpus or 0) > least)


def _check_words(request: Request, partitions: Iterable[str]) -> None:
    named = (("account", request.account), ("qos", request.qos), ("gpu-type", request.gpu_type))
    for key, word in (*[("partition", name) for name in partitions], *named):
        if word is not None and not _is_word(word):
            raise RequestError(
                f"--{key} {word!r} is not a Slurm name", "Use letters, digits and _ . @ + - only."
            )


def _is_word(word: str) -> bool:
    return _WORD.fullmatch(word) is not None


def _check_known(
    what: str, name: str | None, known: Collection[str], useful: Iterable[str], site: Site
) -> None:
    """Refuse a name that the profile does not list, where it lists any."""
    if name is not None and known and name not in known:
        raise RequestError(f"{site.name} has no {what} {name!r}", did_you_mean(name, useful))
