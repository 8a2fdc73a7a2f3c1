"""Where a job may run: partition, account, limits, and refusals."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from math import inf

from slurmgen.errors import (
    Hint,
    LimitExceeded,
    RequestError,
    ask_for,
    closest,
    contradiction,
    did_you_mean,
    leave_it_out,
    leave_out,
    offered,
    option,
    worded,
)
from slurmgen.launchers import Launcher
from slurmgen.plan import requeue
from slurmgen.plan.model import Plan
from slurmgen.plan.requeue import REASONS
from slurmgen.request.model import Request
from slurmgen.sites.model import CompleteList, Limits, Node, Partition, Qos, Site
from slurmgen.sites.nodes import (
    Place,
    Settings,
    accepts,
    cpu_partitions,
    default_type,
    gpu_partitions,
    partitions_of,
    place_of,
    places_of,
)
from slurmgen.slurm import sbatch_options, units
from slurmgen.text import counted, toml_key

_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*")
_PARTITION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+:-]*")


def find_place(request: Request, site: Site, gpus: int) -> Place:
    """The place of the job: of the site's defaults, the first whose limits allow it.

    It must fit each of several partitions, as in `a,b`.
    """
    partitions = partitions_of(site, request.partition)
    _check_words(request, partitions)
    if site.account.required and not request.account:
        hint = f" {site.account.hint}" if site.account.hint else ""
        raise RequestError(f"{site.name} needs an account", f"Add {option('account', 'NAME')}.{hint}")
    _check_listed(request, site, gpus)
    if not gpus:
        _check_without_gpus(request)
    _check_required(request, site, gpus)
    _check_types(request, site, partitions)
    _check_qos(request, site, partitions)
    places = [*places_of(site, request.partition, request.gpu_type, request.qos, with_gpus=gpus > 0)]
    large = [place for place in places if _has_room(place, request, gpus)]
    fitting = (place for place in large if fits(place, request, gpus))
    place = next(fitting, large[-1] if large else max(reversed(places), key=_most_nodes))
    _check_accepted(request, site, place, gpus)
    return place


def _check_accepted(request: Request, site: Site, place: Place, gpus: int) -> None:
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
        _other_partition(useful),
        "qos",
    )


def _other_partition(names: Sequence[str]) -> Hint:
    if not names:
        return leave_it_out("qos", text=f"Name another {option('qos')}.")
    named = option("partition", " or ".join(names))
    return Hint(f"Name {named}, or another {option('qos')}.", offered("partition", *names))


def _check_without_gpus(request: Request) -> None:
    if request.gpu_type:
        raise contradiction(option("gpus", 0), option("gpu_type"))
    if request.cpus_per_gpu:
        fact = f"{option('cpus_per_gpu')} has no effect with {option('gpus', 0)}"
        raise RequestError(fact, leave_it_out("cpus_per_gpu", text=f"Use {option('cpus')}."))


def check_partition(site: Site, place: Place, gpus: int) -> None:
    """Refuse a job without GPUs for which the profile knows no partition."""
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
    of_each = {name: site.partitions[name].gpu_type for name in partitions if name in site.partitions}
    different = {kind for kind in of_each.values() if kind}
    if len(different) > 1:
        raise RequestError(
            f"{option('partition', request.partition)} has GPUs of several types: "
            f"{', '.join(sorted(different))}",
            "Name partitions with one type.",
        )
    for name, kind in of_each.items():
        known_type = request.gpu_type in site.gpu.types
        if request.partition and known_type and kind not in (None, request.gpu_type):
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
            Hint(
                f"GPU types of its partitions: {', '.join(types)}. "
                f"For another type, add {option('partition', 'NAME')}.",
                offered("gpu_type", *types),
            ),
        )
    if site.gpu.request == "none" and not site.gpu.types:
        raise RequestError(f"{site.name} accepts no GPU type", leave_out("gpu_type"))


def _check_qos(request: Request, site: Site, partitions: Iterable[str]) -> None:
    known = [name for name in partitions if name in site.partitions or not site.partitions]
    if request.partition and request.qos and not accepts(site, request.qos, known):
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


LISTS: dict[CompleteList, tuple[str, str]] = {
    "partitions": ("partition", "partition"),
    "qos": ("QoS", "qos"),
    "gpu.types": ("GPU type", "gpu_type"),
}
"What each list has, and the field of a request that names one."


def _listed(site: Site, key: CompleteList) -> Collection[str]:
    of_type: Collection[str] = site.gpu.types
    return of_type if key == "gpu.types" else site.partitions if key == "partitions" else site.qos


def unlisted(request: Request, site: Site) -> Iterator[tuple[CompleteList, str]]:
    """The names in a request that a list of the profile lacks, each with the key of that list."""
    named: dict[CompleteList, tuple[str | None, ...]] = {
        "partitions": partitions_of(site, request.partition),
        "qos": (request.qos,),
        "gpu.types": (request.gpu_type,),
    }
    for key, names in named.items():
        known = _listed(site, key)
        yield from ((key, name) for name in names if name and known and name not in known)


def _check_listed(request: Request, site: Site, gpus: int) -> None:
    """Refuse a name that a complete list lacks."""
    for key, name in unlisted(request, site):
        if key in site.complete:
            useful = _partitions_for(site, gpus) if key == "partitions" else ()
            what, field = LISTS[key]
            hint = did_you_mean(name, useful or _listed(site, key), field)
            raise RequestError(f"{site.name} has no {what} {name!r}", hint)


def _unlisted_notes(request: Request, site: Site) -> dict[str, str]:
    """What becomes of a name that a list lacks, and the lines that add it."""
    text = (
        "The profile of {site} does not list {what} {name}: slurmgen passes it on, "
        "and does not know its limits.{guess} To list it, write three lines to site_profiles/{site}.toml: "
        'name = "{site}", extends = "{site}" and [{table}].'
    )
    return {
        f"{key}.{name}": text.format(
            site=site.name,
            what=LISTS[key][0],
            name=name,
            guess=f" Did you mean {close}?" if (close := closest(name, _listed(site, key))) else "",
            table=f"{key}.{toml_key(name)}",
        )
        for key, name in unlisted(request, site)
    }


def _partitions_for(site: Site, gpus: int) -> tuple[str, ...]:
    return gpu_partitions(site) if gpus else cpu_partitions(site)


def _has_room(place: Place, request: Request, gpus: int) -> bool:
    nodes = _nodes(place, request, gpus)
    return not any(one for limits in place.limits.values() for one in _excess(limits, gpus, nodes))


def _most_nodes(place: Place) -> float:
    return min((limits.max_nodes or inf for limits in place.limits.values()), default=inf)


def fits(place: Place, request: Request, gpus: int) -> bool:
    """Whether the limits of a place allow the job, and its nodes have the CPUs and the memory."""
    nodes = _nodes(place, request, gpus)
    in_limits = all(_allows(limits, request, gpus, nodes) for limits in place.limits.values())
    return in_limits and _holds(place.node, request)


def _nodes(place: Place, request: Request, gpus: int) -> int:
    return request.nodes or -(-gpus // (place.node.gpus or gpus or 1)) or 1


def _holds(node: Node, request: Request) -> bool:
    has_cpus = not (node.cpus and request.cpus) or request.cpus <= node.cpus
    return has_cpus and not (node.memory and _megabytes(request.mem) > units.megabytes(node.memory))


def _megabytes(text: str | None) -> int:
    """The memory of a request; 0 if it names none, or one that is reported later as wrong."""
    try:
        return units.megabytes(text) if text else 0
    except ValueError:
        return 0


def _seconds(request: Request) -> int:
    """The time limit of a request; 0 if it names none, or one that is reported later as wrong."""
    try:
        return units.seconds(request.time) if request.time else 0
    except ValueError:
        return 0


def _excess(limits: Limits, gpus: int, nodes: int) -> Iterator[tuple[str, int, str, int]]:
    for key, count, least, most in (
        ("gpus", gpus, limits.min_gpus, limits.max_gpus),
        ("nodes", nodes, limits.min_nodes, limits.max_nodes),
    ):
        if most is not None and count > most:
            yield key, count, "at most", most
        if least is not None and count < least:
            yield key, count, "at least", least


def check_limits(request: Request, site: Site, place: Place, gpus: int) -> None:
    """Refuse more or fewer GPUs or nodes than a job may have."""
    nodes = _nodes(place, request, gpus)
    for name, limit in place.limits.items():
        if gpus and not limit.has_gpus:
            names = gpu_partitions(site)
            text = f"Choose one with GPUs: {', '.join(names)}."
            raise RequestError(f"{name} has no GPUs", Hint(text, offered("partition", *names)))
        for key, count, bound, value in _excess(limit, gpus, nodes):
            fact = f"{_compared(key, count, bound)} the limit of {name}: {value} per job"
            others = [*_with_room(request, site, gpus, nodes)] if name.startswith("partition ") else []
            raise LimitExceeded(fact, _within(*_allowed(request, place, key, value), bound, others), key)


def _compared(key: str, count: int, bound: str) -> str:
    """Such as `40 GPUs exceed`."""
    one, several = ("exceeds", "exceed") if bound == "at most" else ("is below", "are below")
    return f"{counted(count, 'GPU' if key == 'gpus' else 'node')} {one if count == 1 else several}"


def _allowed(request: Request, place: Place, key: str, value: int) -> tuple[str, int]:
    """A limit in what the request names: its nodes follow from its GPUs, if it names only these."""
    per_node = place.node.gpus
    follow = key == "nodes" and request.nodes is None and request.gpus and per_node
    return ("gpus", value * per_node) if follow and per_node else (key, value)


def _within(field: str, value: int, bound: str, partitions: Sequence[str]) -> Hint:
    if not partitions:
        return ask_for(field, value, bound=bound)
    other = f", or use {option('partition', ' or '.join(partitions))}."
    return Hint(
        f"Ask for {bound} {option(field, value)}{other}",
        (*offered(field, value), *offered("partition", *partitions)),
    )


def _with_room(request: Request, site: Site, gpus: int, nodes: int) -> Iterator[str]:
    """The partitions that accept the GPU type and QoS of the request, and whose limits allow that much."""
    for name in _partitions_for(site, gpus):
        partition = site.partitions[name]
        has_type = not request.gpu_type or partition.gpu_type in (None, request.gpu_type)
        has_qos = not request.qos or accepts(site, request.qos, [name])
        holds = _holds(place_of(site, name, with_gpus=gpus > 0).node, request)
        if has_type and has_qos and holds and _allows(partition, request, gpus, nodes):
            yield name


def _allows(limits: Limits, request: Request, gpus: int, nodes: int) -> bool:
    seconds = _seconds(request)
    most, least = limits.seconds_for(nodes), units.time_limit(limits.min_time)
    in_time = (most is None or seconds <= most) and (least is None or seconds == 0 or seconds >= least)
    cpus = max((request.cpus_per_gpu or 0) * gpus, (request.cpus or 0) * nodes)
    has_cpus = limits.max_cpus is None or cpus <= limits.max_cpus
    has_memory = _megabytes(request.mem) * nodes <= (_megabytes(limits.max_memory) or inf)
    return in_time and has_cpus and has_memory and not any(_excess(limits, gpus, nodes))


def roomier(site: Site, node: Node) -> tuple[str, ...]:
    """GPU types whose nodes have more GPUs than this one."""
    least = node.gpus or 0
    return tuple(name for name, kind in site.gpu.types.items() if least and (kind.gpus or 0) > least)


def check_one_node(request: Request, site: Site, place: Place, launcher: Launcher, gpus: int) -> None:
    """Refuse more GPUs for one process than a node has."""
    most = place.node.gpus or gpus
    if launcher.max_nodes != 1 or (request.nodes or 1) > 1 or gpus <= most:
        return
    larger = offered("gpu_type", *(name for name, kind in site.gpu.types.items() if (kind.gpus or 0) >= gpus))
    larger = larger or offered(
        "partition", *(name for name in gpu_partitions(site) if (place_of(site, name).node.gpus or 0) >= gpus)
    )
    others = (*larger[:3], *offered("framework", "ddp"))
    raise RequestError(
        f"{launcher.name} starts one process, and a node of {place.node_name} has {counted(most, 'GPU')}, "
        f"not {gpus}",
        Hint(
            f"Ask for at most {option('gpus', most)}, or use {' or '.join(option(*one) for one in others)}.",
            (*offered("gpus", most), *others),
        ),
    )


def check_options(request: Request, site: Site, names: Iterable[str]) -> None:
    """Refuse the sbatch options of a planned job that the site refuses."""
    for name in names:
        if name in site.refused_options:
            raise RequestError(
                f"--{name} is refused by {site.name}: {site.refused_options[name]}", _removal(name, request)
            )


def _removal(name: str, request: Request) -> str:
    if name in sbatch_options.given(request.sbatch):
        return f"Leave {option('sbatch', name)} out."
    if requeue.bad_node_reason(request, name):
        if name == "exclude":
            return leave_out("exclude")
        return leave_it_out("on_bad_node", text=f"Leave {option('on_bad_node', 'retry')} out.")
    if name == "array" and request.in_segments:
        return leave_out("segments")
    source = "requeue" if name in REASONS else "mem" if name.startswith("mem") else name.replace("-", "_")
    if getattr(request, source, None):
        return leave_out(source)
    return "The script needs it: correct refused_options in the profile."


def check_refusals(site: Site, settings: Settings) -> None:
    """Refuse a combination of nodes, partition and the like."""
    for name, reason in settings.refusals.items():
        advice = settings.notes.get(name) or "Change the GPUs, nodes or partition of the job."
        table = site.when[name]
        field = next((field for key, field in _FIELDS.items() if getattr(table, key) is not None), "")
        raise RequestError(f"{site.name} refuses such a job: {reason}", advice, field)


_FIELDS = {
    "has_gpus": "gpus",
    "several_gpus": "gpus",
    "whole_nodes": "gpus",
    "tasks": "framework",
    "nodes": "nodes",
    "gpu_type": "gpu_type",
    "partition": "partition",
    "qos": "qos",
    "container": "container",
}
"The field of the request that decides a condition of a profile."


_INTERNET = {
    "no": "Compute nodes do not reach the internet: download on a login node, such as with before_login.",
    "proxy": "Compute nodes reach the internet over HTTP only, by the proxy in http_proxy and https_proxy.",
}


def notes(plan: Plan) -> dict[str, str]:
    """What users should know about a job, by topic."""
    site, place, why = plan.profile, plan.place, plan.ranks.launcher.threads
    preemptible = [f"partition {name}" for name in place.partitions if _preempts(site.partitions.get(name))]
    preemptible += [f"QoS {place.qos}"] if _preempts(site.qos.get(place.qos or "")) else []
    text = f"Slurm may stop jobs of {', '.join(preemptible)} for other jobs; --requeue starts them again."
    preemption = {"preemption": text} if preemptible and not plan.request.may_stop_early else {}
    threads = {"threads": why} if why else {}
    internet = {"internet": _INTERNET[site.internet]} if site.internet in _INTERNET else {}
    return threads | preemption | internet | warnings(plan)


def warnings(plan: Plan) -> dict[str, str]:
    """Those notes that are printed with every script of the job."""
    text = plan.request.time or ""
    hours = units.hours_as_minutes(text)
    fact = f"{worded(option('time', text))} is {hours} minutes. Write {hours}:00:00 for hours."
    minutes = {"time": fact} if hours else {}
    return minutes | plan.ranks.settings.notes | _unlisted_notes(plan.request, plan.profile)


def _preempts(limits: Partition | Qos | None) -> bool:
    return limits is not None and limits.preemptible
