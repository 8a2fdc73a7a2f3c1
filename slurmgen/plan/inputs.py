"""What a plan is made from."""

from typing import NamedTuple

from slurmgen.errors import RequestError, did_you_mean
from slurmgen.launchers import LAUNCHERS, Launcher
from slurmgen.plan.reasons import Origin
from slurmgen.request import Request
from slurmgen.sites.model import Site

DEFAULT_FRAMEWORK = "ddp"
FRAMEWORK_WITHOUT_GPUS = "python"
DEFAULT_GPUS = 1


class Inputs(NamedTuple):
    """A request and the site that it is for."""

    request: Request
    site: Site
    origin: Origin
    "Where each field of the request comes from."


def requested_gpus(request: Request) -> int:
    """GPUs of the whole job."""
    return DEFAULT_GPUS if request.gpus is None else request.gpus


def find_launcher(request: Request, site: Site) -> Launcher:
    """The launcher of a request. A rendezvous is one of torchrun, so that such a request keeps torchrun.

    Raises:
        RequestError: the framework is unknown.
    """
    name = request.framework or (DEFAULT_FRAMEWORK if requested_gpus(request) else FRAMEWORK_WITHOUT_GPUS)
    if name not in LAUNCHERS:
        raise RequestError(f"unknown framework {name!r}", did_you_mean(name, LAUNCHERS, "framework"))
    by_srun = name == "ddp" and site.launch.ddp == "srun" and request.rendezvous is None
    return LAUNCHERS["srun" if by_srun else name]
