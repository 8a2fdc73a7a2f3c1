"""The node and the limits that a site gives the job of a script."""

import re
from typing import TYPE_CHECKING

from slurmgen.lint.finding import Site
from slurmgen.lint.reader import Script

if TYPE_CHECKING:
    from slurmgen.sites.nodes import Place


def place(script: Script, site: Site) -> "Place":
    """The node that the job gets and the limits that apply to it, according to the site's profile."""
    from slurmgen.sites.nodes import place_of  # takes 20 ms, which a run without a site does not need

    header = script.header
    return place_of(site, header.value("partition"), gpu_type(script, site), header.value("qos"))


def gpu_type(script: Script, site: Site) -> str | None:
    """The GPU type of the job: that of its GPU request, else the type whose constraint it names."""
    constraint = script.header.value("constraint") or ""
    words = re.split(r"[^\w.+-]+", constraint)
    by_constraint = (name for name, kind in site.gpu.types.items() if kind.constraint in words)
    return script.job.gpu_type or next(by_constraint, None)
