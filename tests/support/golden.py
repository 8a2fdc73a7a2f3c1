"""The requests of the golden scripts: every site x framework x size."""

from msgspec.structs import replace

from slurmgen.launchers import LAUNCHERS
from slurmgen.request import Request

ACCOUNTS = {"generic": None, "daic": "ewi-insy-prb", "olivia": "nn1234k"}
PER_NODE = {"generic": 4, "daic": 3, "olivia": 4}
SIZES = ("1gpu", "node", "2nodes")
REQUEUED = ("generic.python.1gpu", "daic.lightning.node", "generic.ddp.node", "olivia.accelerate.2nodes")


def golden_requests() -> dict[str, tuple[str, Request]]:
    """Site and request by the name of the golden file."""
    plain = {
        f"{site}.{framework}.{size}": (site, _request(site, framework, size))
        for site in PER_NODE
        for framework, launcher in LAUNCHERS.items()
        for size in SIZES
        if size == "1gpu" or launcher.max_world_size != 1
    }
    again = {f"{name}.requeue": (plain[name][0], replace(plain[name][1], requeue=True)) for name in REQUEUED}
    return plain | again


def _request(site: str, framework: str, size: str) -> Request:
    gpus, nodes = {
        "1gpu": (1, None),
        "node": (PER_NODE[site], None),
        "2nodes": (2 * PER_NODE[site], 2 if site == "generic" else None),
    }[size]
    return Request(framework=framework, gpus=gpus, nodes=nodes, account=ACCOUNTS[site])
