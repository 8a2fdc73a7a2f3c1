"""What a profile says against a job: the options and combinations that the site refuses, and its notes."""

from collections.abc import Iterable

from slurmgen.errors import RequestError
from slurmgen.field_names import option
from slurmgen.hints import leave_it_out, leave_out
from slurmgen.plan import bad_nodes
from slurmgen.plan.requeue import REASONS
from slurmgen.request import Request
from slurmgen.sites.model import Partition, Qos, Site, When
from slurmgen.sites.nodes import Place
from slurmgen.sites.settings import Settings
from slurmgen.slurm import sbatch_options


def check_options(request: Request, site: Site, names: Iterable[str]) -> None:
    """Refuse the sbatch options of a planned job that the site refuses.

    Raises:
        RequestError: there is one; the hint names the option of the request that adds it.
    """
    for name in names:
        if name in site.refused_options:
            raise RequestError(
                f"--{name} is refused by {site.name}: {site.refused_options[name]}", _removal(name, request)
            )


def _removal(name: str, request: Request) -> str:
    """How the user removes an sbatch option of the script."""
    if name in sbatch_options.given(request.sbatch):
        return f"Leave {option('sbatch', name)} out."
    if bad_nodes.reason(request, name):
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
    """Refuse a combination of nodes, partition and the like.

    Raises:
        RequestError: the site refuses it.
    """
    for name, reason in settings.refusals.items():
        advice = settings.notes.get(name) or "Change the GPUs, nodes or partition of the job."
        raise RequestError(f"{site.name} refuses such a job: {reason}", advice, _field(site.when[name]))


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


def _field(table: When) -> str:
    """The field that a refused combination is about; empty if its table has no condition."""
    return next((field for name, field in _FIELDS.items() if getattr(table, name) is not None), "")


_INTERNET = {
    "no": "Compute nodes do not reach the internet: download on a login node, such as with before_login.",
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
