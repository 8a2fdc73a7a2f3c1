"""Where on a site a script sends its job."""

from typing import TYPE_CHECKING

from slurmgen.lint.finding import Site
from slurmgen.lint.reader import Script

if TYPE_CHECKING:
    from slurmgen.site import Limits, Node


def partitions(script: Script, site: Site) -> list[str]:
    """The partitions that the script names, or the site's default."""
    said = script.header.value("partition")
    if said:
        return [name.strip() for name in said.split(",")]
    return [site.default_partition] if site.default_partition else []


def limits(script: Script, site: Site) -> "dict[str, Limits]":
    """What holds for the job for certain: the limits of its one partition and of its quality of service."""
    found: dict[str, Limits] = {}
    names = partitions(script, site)
    if len(names) == 1 and names[0] in site.partitions:
        found[f"partition {names[0]}"] = site.partitions[names[0]]
    qos = script.header.value("qos")
    if qos in site.qos:
        found[f"qos {qos}"] = site.qos[qos]
    return found


def node(script: Script, site: Site) -> "Node":
    """The node that the job gets, as the profile knows it: best by GPU type, then by partition."""
    from slurmgen.site import Node

    names = partitions(script, site)
    partition = site.partitions.get(names[0]) if len(names) == 1 else None
    layers = [site.gpu.types.get(script.job.gpu_type or ""), partition.node if partition else None, site.node]
    known = [layer for layer in layers if layer]
    return Node(
        gpus=next((layer.gpus for layer in known if layer.gpus), None),
        cpus=next((layer.cpus for layer in known if layer.cpus), None),
        memory=next((layer.memory for layer in known if layer.memory), None),
    )
