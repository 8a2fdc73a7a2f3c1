"""The requests of the golden scripts: every site, framework and size."""

from msgspec.structs import replace

from slurmgen.launchers import LAUNCHERS
from slurmgen.request import Request
from slurmgen.sites.profiles import load_site, profile_paths
from slurmgen.sites.shapes import SIX_SHAPES, SIZES, shape_request

ACCOUNTS = {"daic": "ewi-insy-prb", "olivia": "nn1234k"}
WHOLE_MATRIX = ("generic", "daic", "olivia")
REQUEUED = ("generic.python.1gpu", "daic.lightning.node", "generic.ddp.node", "olivia.accelerate.2nodes")


def golden_requests() -> dict[str, tuple[str, Request]]:
    """Site and request by the name of the golden file."""
    plain = {
        f"{site}.{framework}.{size}": (site, _request(site, framework, size))
        for site in profile_paths(personal=False)
        for framework, size in (_matrix() if site in WHOLE_MATRIX else SIX_SHAPES)
    }
    again = {f"{name}.requeue": (plain[name][0], replace(plain[name][1], requeue=True)) for name in REQUEUED}
    return plain | again


def _matrix() -> list[tuple[str, str]]:
    return [
        (framework, size)
        for framework, launcher in LAUNCHERS.items()
        for size in SIZES
        if size != "2nodes" or launcher.max_nodes != 1
    ]


def _request(name: str, framework: str, size: str) -> Request:
    program = None if LAUNCHERS[framework].bundled_script else "train.py"
    request = shape_request(load_site(name, personal=False), framework, size, Request(script=program))
    return replace(request, account=ACCOUNTS[name]) if name in ACCOUNTS else request
