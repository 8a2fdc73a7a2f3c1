"""The requests of the golden scripts: every site, framework and size."""

from msgspec.structs import replace

from slurmgen.launchers import LAUNCHERS
from slurmgen.request import Request
from slurmgen.sites.nodes import place_of
from slurmgen.sites.profiles import load_site, profile_paths

ACCOUNTS = {"daic": "ewi-insy-prb", "olivia": "nn1234k"}
WHOLE_MATRIX = ("generic", "daic", "olivia")
SIZES = ("1gpu", "node", "2nodes")
SIX_SHAPES = (
    ("python", "1gpu"),
    ("ddp", "node"),
    ("lightning", "node"),
    ("accelerate", "node"),
    ("ddp", "2nodes"),
    ("lightning", "2nodes"),
)
REQUEUED = ("generic.python.1gpu", "daic.lightning.node", "generic.ddp.node", "olivia.accelerate.2nodes")
_GPUS = 4
"GPUs of a node, where the profile does not say."


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
        if size == "1gpu" or launcher.max_world_size != 1
    ]


def _request(name: str, framework: str, size: str) -> Request:
    site = load_site(name, personal=False)
    known = place_of(site).node.gpus
    per_node = known or _GPUS
    gpus, nodes = {
        "1gpu": (1, None),
        "node": (per_node, None),
        "2nodes": (2 * per_node, None if known else 2),
    }[size]
    account = ACCOUNTS.get(name, "project1" if site.account.required else None)
    qos = next(iter(site.qos)) if site.qos_required and not site.default_qos else None
    return Request(framework=framework, gpus=gpus, nodes=nodes, account=account, qos=qos)
