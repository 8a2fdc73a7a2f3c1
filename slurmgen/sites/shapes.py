"""The shapes of jobs that a site must be able to run: a framework on one GPU, one node or two nodes."""

from slurmgen.request import Request, merge
from slurmgen.sites.model import Site
from slurmgen.sites.nodes import places_of

SIZES = {"1gpu": "one GPU", "node": "one node", "2nodes": "two nodes"}
SIX_SHAPES = (
    ("python", "1gpu"),
    ("ddp", "node"),
    ("lightning", "node"),
    ("accelerate", "node"),
    ("ddp", "2nodes"),
    ("lightning", "2nodes"),
)
"Framework and size. They cover every launcher, and each way of starting ranks on several nodes."
_GPUS = 4
"GPUs of a node, where the profile does not say."
_ACCOUNT = "project1"
_NO_OPTIONS = Request()


def shape_request(site: Site, framework: str, size: str, options: Request = _NO_OPTIONS) -> Request:
    """The request of a shape: what the site requires gets a value, all else is left to its defaults.

    Args:
        site: the cluster.
        framework: the launcher.
        size: a key of SIZES.
        options: what the user requests besides, such as a partition.
    """
    places = places_of(site, options.partition, options.gpu_type, options.qos)
    known = max((place.node.gpus or 0 for place in places), default=0)
    per_node = known or _GPUS
    gpus, nodes = {
        "1gpu": (1, None),
        "node": (per_node, None),
        "2nodes": (2 * per_node, None if known else 2),
    }[size]
    qos = next(iter(site.qos), None) if site.qos_required and not site.default_qos else None
    account = _ACCOUNT if site.account.required else None
    shape = Request(framework=framework, gpus=gpus, nodes=nodes, account=account, qos=qos)
    return merge(shape, options)
