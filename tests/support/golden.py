"""The requests of the golden scripts: every site, framework and size."""

from msgspec.structs import replace

from slurmgen.launchers import LAUNCHERS
from slurmgen.request.model import Request, Sweep, Then
from slurmgen.sites.nodes import SIX_SHAPES, SIZES, shape_request
from slurmgen.sites.profiles import load_site, profile_paths

ACCOUNTS = {"daic": "ewi-insy-prb", "olivia": "nn1234k"}
CHECKED = ("generic.lightning.node", "olivia.ddp.2nodes")
WHOLE_MATRIX = ("generic", "daic", "olivia")
AROUND: dict[str, object] = {
    "before_login": ("python download.py",),
    "before": ("mkdir -p results",),
    "after": ('cp -r results "$HOME"',),
    "then": (
        Then(script="evaluate.py", script_args=("--all",)),
        Then(command=("tar", "-cf", "all.tar", "results")),
    ),
    "stage": ("/scratch/data/own.bin",),
    "stage_archives": ("$HOME/data/packed.tar.gz",),
}
AROUND_STEP = {"generic.ddp.2nodes": None, "narval.lightning.node": True}
"Whether the jobs with lines and steps around the first one are requeued."
WITHOUT_GPUS = {
    "olivia.python.cpus": Request(gpus=0, cpus=8, script="prep.py", account=ACCOUNTS["olivia"]),
    "generic.ray.cpus": Request(framework="ray", gpus=0, cpus=8, nodes=2, script="prep.py"),
}
WITH_SECRETS = "olivia.ddp.2nodes"
SWEPT = {
    "generic.ddp.node.sweep": Sweep(grid={"lr": ("1e-3", 0.01), "name": ("it's $HOME", "é")}, limit=2),
    "daic.python.1gpu.shared": Sweep(grid={"seed": (1, 2, 3)}, style="hydra", runs_per_gpu=2),
}
REQUEUED = ("generic.python.1gpu", "daic.lightning.node", "generic.ddp.node", "olivia.accelerate.2nodes")

IN_SEGMENTS = ("olivia.ddp.2nodes",)


def golden_requests() -> dict[str, tuple[str, Request]]:
    """Site and request by the name of the golden file."""
    plain = {
        f"{site}.{framework}.{size}": (site, _request(site, framework, size))
        for site in profile_paths(personal=False)
        for framework, size in (_matrix() if site in WHOLE_MATRIX else SIX_SHAPES)
    }
    checked = {
        f"{name}.preflight": (plain[name][0], replace(plain[name][1], preflight=True)) for name in CHECKED
    }
    again = {f"{name}.requeue": (plain[name][0], replace(plain[name][1], requeue=True)) for name in REQUEUED}
    around = {
        f"{name}.around": (plain[name][0], replace(plain[name][1], **AROUND, requeue=requeue))
        for name, requeue in AROUND_STEP.items()
    }
    segments = {
        f"{name}.segments": (plain[name][0], replace(plain[name][1], segments=5)) for name in IN_SEGMENTS
    }
    without_gpus = {name: (name.partition(".")[0], asked) for name, asked in WITHOUT_GPUS.items()}
    secret = {
        f"{WITH_SECRETS}.secrets": (
            plain[WITH_SECRETS][0],
            replace(plain[WITH_SECRETS][1], secrets=("HF_TOKEN",), requeue=True),
        )
    }
    swept = {
        name: (site, replace(asked, sweep=SWEPT[name]))
        for name in SWEPT
        for site, asked in [plain[name.rpartition(".")[0]]]
    }
    return plain | secret | checked | again | segments | around | without_gpus | swept


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
