"""The node and the limits that a site gives the job of a script."""

from typing import TYPE_CHECKING

from slurmgen.lint.finding import Site
from slurmgen.lint.reader import Script

if TYPE_CHECKING:
    from slurmgen.sites.nodes import Place


def place(script: Script, site: Site) -> "Place":
    """The node that the job gets and the limits that apply to it, according to the site's profile."""
    from slurmgen.sites.nodes import place_of  # takes 20 ms, which a run without a site does not need

    header = script.header
    return place_of(site, header.value("partition"), script.job.gpu_type, header.value("qos"))
