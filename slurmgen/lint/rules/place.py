"""Where on a site a script sends its job."""

from slurmgen.lint.finding import Site
from slurmgen.lint.reader import Script
from slurmgen.sites.nodes import Place, place_of


def place(script: Script, site: Site) -> Place:
    """The node that the job gets, and the limits that hold there, as the profile knows them."""
    header = script.header
    return place_of(site, header.value("partition"), script.job.gpu_type, header.value("qos"))
