"""What a job costs at most, in the site's own unit."""

from slurmgen.launchers import Layout
from slurmgen.sites.model import Charge, Site
from slurmgen.sites.nodes import Place


def charged(site: Site, place: Place, layout: Layout, seconds: int) -> str | None:
    """The charge of a job that uses its whole time limit, such as `24 SU`; None without a rate.

    Whole nodes count where the site charges by node.
    """
    if site.charge is None or not (layout.gpus or site.charge.per == "node"):
        return None
    count = layout.nodes if site.charge.per == "node" else layout.gpus
    return f"{count * _rate(site.charge, place) * seconds / 3600:g} {site.charge.unit}"


def _rate(charge: Charge, place: Place) -> float:
    """The rate of a job; of several partitions, the highest, since Slurm chooses one."""
    if place.qos in charge.rates:
        return charge.rates[place.qos]
    usual = charge.rates.get(place.gpu_type or "", charge.rate)
    return max((charge.rates.get(name, usual) for name in place.partitions), default=usual)
