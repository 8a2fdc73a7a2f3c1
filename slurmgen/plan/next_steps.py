"""Further steps of a job, such as an evaluation: each runs if the step before has succeeded."""

from collections.abc import Iterator

from msgspec import Struct, structs

from slurmgen.errors import RequestError
from slurmgen.launchers import Launcher, Layout
from slurmgen.plan.environment import Setup
from slurmgen.plan.job_step import Step, find_step
from slurmgen.plan.layout import check_shape
from slurmgen.plan.program import find_program
from slurmgen.plan.reasons import origin_of
from slurmgen.plan.resources import cpus
from slurmgen.plan.variables import check_names, check_per_task, task_variables
from slurmgen.request import Request
from slurmgen.sites.model import Site
from slurmgen.sites.nodes import Place
from slurmgen.sites.settings import Shape, settings_of

_OF_LAUNCHER = dict.fromkeys(("rendezvous", "mixed_precision", "launcher_args", "launcher_config"))


class NextStep(Struct, frozen=True, kw_only=True):
    """A further step, and how srun starts it."""

    step: Step
    launcher: Launcher
    layout: Layout
    script: str | None
    "Its script, if it runs one."

    @property
    def ntasks_per_node(self) -> int:
        """Tasks that srun starts on each node."""
        return self.launcher.ntasks_per_node(self.layout.gpus_per_node)

    @property
    def procs_per_task(self) -> int:
        """Ranks of each task."""
        return self.launcher.procs_per_task(self.layout.gpus_per_node)


def next_requests(request: Request) -> Iterator[Request]:
    """The request of each further step: that of the job with another program.

    Raises:
        RequestError: a step names no program.
    """
    for one in request.then or ():
        own = structs.asdict(one)
        framework = own.pop("framework")
        other = {"framework": framework, **_OF_LAUNCHER} if framework else {}
        asked = structs.replace(request, **own, **other)
        if not asked.names_program:
            raise RequestError("then: a step names no program", "Give it a script, a module or a command.")
        yield asked


def next_step(
    request: Request,
    launcher: Launcher,
    first: Launcher,
    site: Site,
    place: Place,
    layout: Layout,
    setup: Setup,
    further: dict[str, str],
    exported: tuple[str, ...],
) -> NextStep:
    """A further step on the nodes of the job, or on the first one if the launcher starts one process only.

    Args:
        request: its request.
        launcher: its launcher.
        first: the launcher of the first step, whose tasks the header counts.
        site: the cluster.
        place: where the job runs.
        layout: nodes and GPUs of the job.
        setup: the software of the job.
        further: the sbatch options beyond those of every plan.
        exported: the names of the variables that the script exports.

    Raises:
        RequestError: the launcher cannot start the program.
    """
    own = layout._replace(nodes=min(layout.nodes, launcher.max_nodes or layout.nodes))
    shape = Shape(*own, launcher.shape == "task-per-gpu", setup.container is not None)
    settings = settings_of(site, place, shape)
    check_shape(launcher, own)
    check_names(request, launcher, own, setup)
    program = find_program(request, launcher)
    per_task = cpus(request, origin_of({}), site, launcher, own, place.node).per_task
    in_task = task_variables(request, site, settings, launcher, own)
    tasks = launcher.ntasks_per_node(own.gpus_per_node)
    check_per_task(request, own.nodes * tasks)
    size = (f"--nodes={own.nodes}", f"--ntasks={own.nodes * tasks}", f"--ntasks-per-node={tasks}")
    is_same = (own.nodes, tasks) == (layout.nodes, first.ntasks_per_node(layout.gpus_per_node))
    step = find_step(
        request,
        settings,
        further,
        None,
        setup,
        launcher,
        own,
        per_task,
        program,
        in_task,
        exported,
        () if is_same else size,
    )
    return NextStep(step=step, launcher=launcher, layout=own, script=program.script)
