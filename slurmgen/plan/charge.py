"""What a job costs at most, in the site's own unit."""

from slurmgen.launchers import Layout
from slurmgen.sites.model import Site
from slurmgen.sites.nodes import Place


def charged(site: Site, place: Place, layout: Layout, seconds: int) -> str | None:
    """The charge of a job that uses its whole time limit, such as `24 SU`; None without a rate.

    Whole nodes count where the site charges by node.
    """
    if site.charge is None:
        return None
    rates = site.charge.rates
    names = (place.qos, *place.partitions, place.gpu_type)
    rate = next((rates[name] for name in names if name in rates), site.charge.rate)
    count = layout.nodes if site.charge.per == "node" else layout.world_size
    return f"{count * rate * seconds / 3600:g} {site.charge.unit}"
