"""`slurmgen preflight`: check nodes of a site by a short job."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from slurmgen.bundled_scripts import PREFLIGHT
from slurmgen.cli.help import Command
from slurmgen.cli.job_output import say
from slurmgen.cli.paths import cache_dir
from slurmgen.cli.route_options import connect_in_background, route_options
from slurmgen.cli.site_option import site_option
from slurmgen.errors import RequestError
from slurmgen.job_spec import JobOptions, JobSpec, load_spec
from slurmgen.paths import bundled, cache_folder
from slurmgen.request import NONE, Request, command_line
from slurmgen.sites.model import Site
from slurmgen.slurm.shell import is_full_path

if TYPE_CHECKING:
    from slurmgen.jobs.prepare import Prepared
    from slurmgen.plan import Plan
    from slurmgen.remote.route import Route

NAME = "preflight"
_TIME = "00:10:00"
_TRAINING = ("true",)
"The job only checks nodes; it trains nothing."
_OF_PROJECT = (
    *("account", "partition", "qos", "gpu_type", "exclude"),
    *("container", "container_engine", "binds", "env", "modules"),
)
"What slurmgen.toml decides: which nodes, and their software."
_OF_SBATCH = ("constraint", "reservation", "clusters", "nodelist", "exclude")


@click.command(
    NAME,
    cls=Command,
    examples={
        "slurmgen preflight --site daic --nodes 2": "Check two nodes",
        "slurmgen preflight --nodes 4 --partition accel": "Check four nodes of a partition",
        "slurmgen preflight --copy": "Copy the program for scripts with --preflight that sbatch runs",
    },
)
@site_option
@click.option("--nodes", type=click.IntRange(min=1), default=1, metavar="N", help="Nodes; default: 1.")
@click.option(
    "--gpus", type=click.IntRange(min=1), metavar="N", help="GPUs of all nodes; default: all that they have."
)
@click.option("--gpu-type", metavar="TYPE", help="GPU type, by its name in Slurm.")
@click.option("--account", metavar="NAME", help="Account to charge.")
@click.option("--partition", metavar="NAME", help="Partition to submit to.")
@click.option("--qos", metavar="NAME", help="Quality of service (QOS).")
@click.option("--time", default=_TIME, metavar="TIME", help=f"Time limit; default: {_TIME}.")
@click.option("--container", metavar="IMAGE", help="Container image with PyTorch, or none for no container.")
@click.option(
    "--python-env", default=NONE, metavar="ENV", help="Python environment: none, venv:FOLDER or conda:NAME."
)
@click.option("--remote-dir", metavar="FOLDER", help="Folder on the cluster; default: ~/slurmgen.")
@click.option("--dry-run", is_flag=True, help="Print the script, without connecting.")
@click.option("--copy", is_flag=True, help="Copy the program into the current folder, and submit nothing.")
@route_options
def command(
    site: str | None,
    nodes: int,
    gpus: int | None,
    remote_dir: str | None,
    dry_run: bool,
    copy: bool,
    **values: Any,
) -> None:
    """Check nodes of a site by a short job.

    The job compares its nodes with each other: GPUs, memory, clocks, the shared folder, and the network
    between them. Its log follows, with one line per node and a verdict. docs/preflight.md lists the checks.

    Exits with 1 if a node is bad, or if the job failed for another reason.
    """
    from slurmgen.remote.route import find_route

    if copy:
        _copy(Path.cwd() / PREFLIGHT)
        return
    route_values = {key: values.pop(key) for key in ("via", "host", "ssh_config", "ssh_client")}
    request = Request(
        preflight=True, command=_TRAINING, framework="srun", name=NAME, nodes=nodes, gpus=gpus, **values
    )
    job = _checking(load_spec(JobOptions(site=site, request=request), Path.cwd()))
    route = find_route(job.site, job.personal, **route_values)
    folder = cache_folder() / NAME  # always the same, so that a repeated command finds its unsettled job
    folder.mkdir(parents=True, exist_ok=True)
    _run(job, folder, route, remote_dir, dry_run=dry_run)


def _copy(folder: Path) -> None:
    if folder.exists():
        raise RequestError(f"{folder.name} exists already", "Remove it first, or keep it.")
    shutil.copytree(bundled(PREFLIGHT), folder, ignore=shutil.ignore_patterns("__pycache__"))
    say(f"copied the program that checks nodes to {folder.name}/")


def _checking(job: JobSpec) -> JobSpec:
    """The job without what slurmgen.toml has for training, with all GPUs of its nodes by default."""
    asked = job.options.request
    kept = {field: getattr(job.request, field) for field in _OF_PROJECT}
    if asked.container is None and _is_in_project(job, kept["container"]):
        kept |= {"container": None, "container_engine": None, "binds": None}
    sbatch = {option: value for option, value in job.request.sbatch.items() if option in _OF_SBATCH}
    request = _with_gpus(structs.replace(asked, **kept, sbatch=sbatch), job.site)
    return structs.replace(job, request=request, command=command_line(job.site.name, request))


def _is_in_project(job: JobSpec, container: str | None) -> bool:
    """Whether an image is a file of the project, which this job does not send."""
    return container is not None and not is_full_path(container) and (job.project_dir / container).exists()


def _with_gpus(request: Request, site: Site) -> Request:
    from slurmgen.sites.nodes import place_of

    each = place_of(site, request.partition, request.gpu_type, request.qos).node.gpus or 1
    return structs.replace(request, gpus=request.gpus or each * (request.nodes or 1))


def _run(job: JobSpec, folder: Path, route: "Route", remote_dir: str | None, *, dry_run: bool) -> None:
    """Submit the job from an empty folder, and show its log until it ends."""
    from slurmgen.cli.submit_output import show

    with connect_in_background(route, starts=not dry_run) as connecting:
        plan, prepared = _prepared(job, folder, route, remote_dir)
        if dry_run:
            show(prepared, as_json=False)
            return
        from slurmgen.cli.submit import follow_job
        from slurmgen.cli.submit_output import say_result
        from slurmgen.cli.submit_progress import Printer
        from slurmgen.jobs.submit import submission

        printer = Printer(prepared, plan)
        with submission(prepared, connecting.transport, observer=printer) as outcome:
            say_result(prepared, outcome)
            follow_job(outcome, route, err=False)


def _prepared(job: JobSpec, folder: Path, route: "Route", remote_dir: str | None) -> "tuple[Plan, Prepared]":
    from slurmgen.jobs.prepare import prepare

    plan = job.plan()
    script = job.render(plan, cache_dir())
    return plan, prepare(plan, script, route, folder, remote_dir or job.personal.remote_dir)
