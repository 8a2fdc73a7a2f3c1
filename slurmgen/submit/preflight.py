"""Submit a check of nodes, alone or before a job."""

from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from slurmgen.errors import RequestError
from slurmgen.files import cache_folder
from slurmgen.job_spec import JobOptions, JobSpec, load_spec
from slurmgen.ledger.bad_nodes import is_node_name
from slurmgen.ledger.places import Confirm
from slurmgen.remote.route import Route
from slurmgen.request.model import NONE, Request
from slurmgen.request.text import command_line
from slurmgen.sites.model import Site
from slurmgen.sites.nodes import place_of
from slurmgen.slurm.shell import is_full_path
from slurmgen.status.nodes import Scope
from slurmgen.submit.how import How
from slurmgen.submit.job import route_of_spec
from slurmgen.submit.prepare import Prepared, prepare
from slurmgen.submit.submission import Login, Observer

NAME = "preflight"
_TRAINING = ("true",)
"The job only checks nodes; it trains nothing."
_FRAMEWORKS = {True: "srun", False: "tensorflow"}
"How the job starts that command, with and without GPUs: the latter allows several nodes without GPUs."
_OF_PROJECT = (
    *("account", "partition", "qos", "gpu_type", "exclude"),
    *("container", "container_engine", "binds", "env", "not_secret", "modules"),
)
"What slurmgen.toml decides: which nodes, and their software."
_OF_SBATCH = ("constraint", "reservation", "clusters", "nodelist", "exclude")


def named_nodes(nodelist: str) -> dict[str, Any]:
    """What a request has for the nodes that the user names, as `NODE,NODE`.

    Raises:
        RequestError: one is not the name of a node.
    """
    names = list(dict.fromkeys(nodelist.split(",")))
    for name in names:
        if not is_node_name(name):
            raise RequestError(f"{name!r} is not the name of a node", "Name each node on its own.")
    return {"nodes": len(names), "sbatch": {"nodelist": ",".join(names)}}


def preflight_job(site: str | None, asked: Request, folder: Path) -> JobSpec:
    """The job: without what slurmgen.toml has for training, with all GPUs of its nodes by default.

    Args:
        site: the site; default: that of slurmgen.toml.

    Raises:
        RequestError, ConfigError: as `load_spec`.
    """
    framework = _FRAMEWORKS[asked.gpus != 0]
    asked = structs.replace(asked, preflight=True, command=_TRAINING, framework=framework, name=NAME)
    job = load_spec(JobOptions(site=site, request=asked), folder)
    kept = {field: getattr(job.request, field) for field in _OF_PROJECT}
    kept["secrets"] = None
    if asked.container is None and _is_in_project(job, kept["container"]):
        kept |= {"container": None, "container_engine": None, "binds": None}
    if asked.gpus == 0:
        kept["gpu_type"] = asked.gpu_type
    sbatch = {option: value for option, value in job.request.sbatch.items() if option in _OF_SBATCH}
    if "nodelist" in asked.sbatch:  # a node that the project excludes may be checked too
        kept["exclude"] = None
        sbatch.pop("exclude", None)
    request = _with_gpus(structs.replace(asked, **kept, sbatch=sbatch), job.site)
    return structs.replace(job, request=request, command=command_line(job.site.name, request))


def _is_in_project(job: JobSpec, container: str | None) -> bool:
    """Whether an image is a file of the project, which this job does not send."""
    return container is not None and not is_full_path(container) and (job.project_dir / container).exists()


def _with_gpus(request: Request, site: Site) -> Request:
    if request.gpus is not None:
        return request
    each = place_of(site, request.partition, request.gpu_type, request.qos).node.gpus or 1
    return structs.replace(request, gpus=each * (request.nodes or 1))


class NodeCheck(Struct, frozen=True):
    """A job that checks nodes. Its project is an empty folder of the cache."""

    spec: JobSpec

    def route(self, how: How, ask: Confirm | None, *, connects: bool) -> Route:
        """See `Work`."""
        return route_of_spec(self.spec, how, ask, connects=connects)

    def arrays(self, _login: Login, route: Route, how: How, _observer: Observer) -> list[Prepared]:
        """See `Work`."""
        folder = cache_folder() / NAME  # always the same, so that a repeated command finds its unsettled job
        folder.mkdir(parents=True, exist_ok=True)
        how = how.by_default_to(self.spec.personal.remote_dir)
        render = partial(self.spec.render, cache_dir=how.cache_dir)
        return prepare(self.spec.plan(), render, route, folder, how)

    def scope(self) -> Scope:
        """What the job could see."""
        plan = self.spec.plan()
        with_torch = plan.setup.container is not None or plan.setup.python_env != NONE
        all_gpus = self.spec.options.request.gpus is None
        return Scope(nodes=plan.request.nodes or 1, all_gpus=all_gpus, with_torch=with_torch)
