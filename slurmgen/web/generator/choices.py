"""What a site's profile says about the fields of the form: values to choose from, limits and defaults.

The user's own settings have defaults too.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from slurmgen.config.user import FILE_NAME, Personal
from slurmgen.sites.model import EngineName, Site
from slurmgen.sites.nodes import Place, places_of
from slurmgen.slurm import durations
from slurmgen.text import counted, listed

PLACED_BY = ("site", "partition", "gpu_type", "qos", "gpus")
"The fields that the hints depend on."
NAMED_BY_SITE = ("partition", "qos", "gpu_type", "container_engine")
"The fields whose values a profile names; another site has other ones."


def choices_of(site: Site) -> dict[str, dict[str, str]]:
    """The values of each field that has some, with a note on each."""
    engines = (site.container.engine, *site.container.engines) if site.container else get_args(EngineName)
    return {
        "partition": {name: _limits(one.max_time, one.max_gpus) for name, one in site.partitions.items()},
        "qos": {name: _limits(one.max_time, one.max_gpus) for name, one in site.qos.items()},
        "gpu_type": {name: one.label or "" for name, one in site.gpu.types.items()},
        "container_engine": dict.fromkeys(dict.fromkeys(engines), ""),
    }


def _limits(time: str | None, gpus: int | None) -> str:
    most = durations.limit(time)
    parts = [f"at most {in_words(most)}" if most else "", "no GPUs" if gpus == 0 else ""]
    return ", ".join(filter(None, parts))


def hints_of(site: Site, own: Personal, texts: Mapping[str, str]) -> dict[str, str]:
    """A hint for each field that may have a limit or a default of its own; empty if it has none."""
    places = _places(site, texts)
    node = _of_node(site, places[0])
    found = _of_size(site, places) | _of_place(site, texts) | _of_software(site) | node | _of_user(site, own)
    return {field: f"{hint[:1].upper()}{hint[1:]}." if hint else "" for field, hint in found.items()}


def _places(site: Site, texts: Mapping[str, str], empty: str = "") -> Sequence[Place]:
    """Where the job may go, with one field empty."""
    named = {key: text.strip() or None for key, text in texts.items() if key != empty}
    placed_by = (named.get(key) for key in ("partition", "gpu_type", "qos"))
    return [*places_of(site, *placed_by, with_gpus=named.get("gpus") != "0")]


def _of_size(site: Site, places: Sequence[Place]) -> dict[str, str]:
    """Limits that no place exceeds: slurmgen chooses the place by the size of the job."""
    per_node = _most([place.node.gpus for place in places])
    gpus, nodes = (
        _most([_least(getattr(one, key) for one in place.limits.values()) for place in places])
        for key in ("max_gpus", "max_nodes")
    )
    seconds = _most([_least(one.seconds_for(1) for one in place.limits.values()) for place in places])
    return {
        "gpus": _joined(
            f"up to {per_node} per node" if per_node else "", f"at most {gpus} per job" if gpus else ""
        ),
        "nodes": f"at most {nodes} per job" if nodes else "",
        "time": _joined(f"at most {in_words(seconds)}" if seconds else "", _default(site.time)),
    }


def _of_place(site: Site, texts: Mapping[str, str]) -> dict[str, str]:
    """A default is what an empty field means, whatever the field has now."""
    required = "required. " if site.account.required else ""
    partitions = [", ".join(place.partitions) for place in _places(site, texts, "partition")]
    qos = [place.qos for place in _places(site, texts, "qos")]
    gpu_types = [place.gpu_type for place in _places(site, texts, "gpu_type")]
    return {
        "account": f"{required}{site.account.hint or ''}".strip().rstrip("."),
        "partition": _of_several(site.partitions, partitions),
        "qos": _of_several(site.qos, qos, required=site.qos_required),
        "gpu_type": _of_several(site.gpu.types, gpu_types, required=site.gpu.type_required),
    }


def _of_several(names: Iterable[str], defaults: Iterable[str | None], *, required: bool = False) -> str:
    """The defaults, else whether a name is required; and the first names that there are."""
    chosen = [*filter(None, dict.fromkeys(defaults))]
    others = [name for name in names if name not in chosen]
    known = f"{'others:' if chosen else 'such as'} {listed(others, 3)}" if others else ""
    return "; ".join(filter(None, [_default(" or ".join(chosen)) or ("required" if required else ""), known]))


def _of_node(site: Site, place: Place) -> dict[str, str]:
    node, per_gpu = place.node, place.node.cpus_per_gpu or site.cpu.per_gpu
    memory = place.node.memory_per_gpu or site.memory.per_gpu
    has = f"{counted(node.cpus, 'CPU')} on a node" if node.cpus else ""
    return {
        "cpus_per_gpu": _joined(_default(str(per_gpu) if per_gpu else None), has),
        "mem": "the site accepts no memory request"
        if site.memory.form == "none"
        else _joined(
            _default(f"{memory} per GPU" if memory else None),
            f"{node.memory} on a node" if node.memory else "",
        ),
    }


def _of_software(site: Site) -> dict[str, str]:
    container = site.container
    return {
        "container": _default(container.image) if container and container.image else "",
        "container_engine": _default(container.engine) if container else "",
        "modules": _default(", ".join(site.modules.load)),
        "python_env": _default(site.python_env),
    }


def _of_user(site: Site, own: Personal) -> dict[str, str]:
    """The defaults that the user's own settings have."""
    image = "" if site.container and site.container.image else own.image
    of_fields = {"account": own.account, "container": image, "mail_user": own.mail_user}
    return {"mail_user": ""} | {
        field: f"{_default(value)}, from {FILE_NAME}" for field, value in of_fields.items() if value
    }


def _default(value: str | None) -> str:
    return f"default: {value}" if value else ""


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _most(limits: Sequence[int | None]) -> int | None:
    """The largest limit; None if a place has none."""
    return max((limit for limit in limits if limit), default=None) if all(limits) else None


def _least(numbers: Iterable[int | None]) -> int | None:
    return min((number for number in numbers if number), default=None)


def in_words(seconds: int) -> str:
    """A duration in words.

    >>> in_words(172_800), in_words(5_400)
    ('2 days', '90 minutes')
    """
    for length, noun in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds % length == 0:
            return counted(seconds // length, noun)
    return durations.canonical(seconds)
