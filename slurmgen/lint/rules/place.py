"""The node and the limits that a site gives the job of a script."""

import re
from typing import TYPE_CHECKING

from slurmgen.lint.finding import Site
from slurmgen.lint.reader import Launch, Script, Span

if TYPE_CHECKING:
    from slurmgen.sites.nodes import Place, Settings


def place(script: Script, site: Site) -> "Place":
    """The node that the job gets and the limits that apply to it, according to the site's profile."""
    from slurmgen.sites.nodes import place_of  # takes 20 ms, which a run without a site does not need

    header = script.header
    with_gpus = script.job.has_gpus or site.gpu.request == "none"  # whose jobs do not ask for GPUs
    return place_of(
        site, header.value("partition"), gpu_type(script, site), header.value("qos"), with_gpus=with_gpus
    )


def settings(script: Script, site: Site, launch: Launch | None = None) -> "Settings":
    """What the site's profile sets for the job; `launch` starts its ranks."""
    from slurmgen.sites.nodes import Shape, settings_of

    job = script.job
    nodes = job.nodes or 1
    gpus = job.gpus_per_node or (job.gpus or 0) // nodes or int(job.has_gpus)  # one at least
    container = launch is not None and any(launch.under(kind) for kind in ("apptainer", "podman", "shifter"))
    shape = Shape(nodes, gpus, gpus > 1 and job.ntasks_per_node == gpus, container)
    return settings_of(site, place(script, site), shape)


def gpu_type(script: Script, site: Site) -> str | None:
    """The GPU type of the job: that of its GPU request, else the type whose constraint it names."""
    constraint = script.header.value("constraint") or ""
    words = re.split(r"[^\w.+-]+", constraint)
    by_constraint = (name for name, kind in site.gpu.types.items() if kind.constraint in words)
    return script.job.gpu_type or next(by_constraint, None)


def span_of(script: Script, *options: str) -> Span:
    """Where the header sets the first of these options that it sets; the first line if it sets none."""
    found = (directive.span for option in options if (directive := script.header.last(option)))
    return next(found, Span(0, len(script.first_line)))
