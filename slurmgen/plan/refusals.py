"""What a profile says against a job: the options and combinations that the site refuses, and its notes."""

from slurmgen.errors import RequestError
from slurmgen.request import Request
from slurmgen.sites.model import Partition, Qos, Site
from slurmgen.sites.nodes import Place
from slurmgen.sites.settings import Settings
from slurmgen.slurm import sbatch_options


def check_refusals(request: Request, site: Site, settings: Settings) -> None:
    """Refuse what the site refuses.

    Raises:
        RequestError: an option, or the combination of nodes, partition and the like.
    """
    for name in sbatch_options.given(request.sbatch):
        if name in site.refused_options:
            raise RequestError(
                f"--sbatch {name} on {site.name}: {site.refused_options[name]}", "Leave the option out."
            )
    for name, reason in settings.refusals.items():
        advice = settings.notes.get(name) or "Change the GPUs, nodes or partition of the job."
        raise RequestError(f"{site.name} refuses such a job: {reason}", advice)


_INTERNET = {
    "no": "Compute nodes do not reach the internet: download data and packages on a login node first.",
    "proxy": "Compute nodes reach the internet over HTTP only, by the proxy in http_proxy and https_proxy.",
}


def notes_of(site: Site, place: Place, settings: Settings, *, requeue: bool) -> dict[str, str]:
    """What users should know about a job, by topic."""
    preemptible = [f"partition {name}" for name in place.partitions if _preempts(site.partitions.get(name))]
    preemptible += [f"QoS {place.qos}"] if _preempts(site.qos.get(place.qos or "")) else []
    text = f"Slurm may stop jobs of {', '.join(preemptible)} for other jobs; --requeue starts them again."
    preemption = {"preemption": text} if preemptible and not requeue else {}
    return preemption | _internet(site) | settings.notes


def _preempts(limits: Partition | Qos | None) -> bool:
    return limits is not None and limits.preemptible


def _internet(site: Site) -> dict[str, str]:
    return {"internet": _INTERNET[site.internet]} if site.internet in _INTERNET else {}
