"""The ranks of one step: what they run, and with which launcher, nodes, CPUs and variables."""

from msgspec import Struct

from slurmgen.launchers import Launcher, Layout
from slurmgen.plan.container import uses_container
from slurmgen.plan.cpus import Cpus, cpus, cpus_of_next
from slurmgen.plan.inputs import Inputs
from slurmgen.plan.layout import check_shape
from slurmgen.plan.program import Program, find_program
from slurmgen.plan.task_variables import check_per_task, task_variables
from slurmgen.sites.nodes import Place
from slurmgen.sites.settings import Settings, Shape, settings_of
from slurmgen.slurm.shell import Variable


class Ranks(Struct, frozen=True, kw_only=True):
    """What decides how srun starts the ranks of a step."""

    launcher: Launcher
    layout: Layout
    settings: Settings
    program: Program
    cpus: Cpus
    variables: tuple[Variable, ...]
    "The variables that each task exports for itself."
    reserved: int
    "Tasks of a node that the header reserves."

    @property
    def ntasks_per_node(self) -> int:
        """Tasks that srun starts on each node."""
        own = self.launcher.ntasks_per_node(self.layout.gpus_per_node)
        return self.reserved if self.launcher.any_tasks else own

    @property
    def reserved_cpus(self) -> int:
        """CPUs of each task that the header reserves."""
        return max(self.cpus.per_node // self.reserved, 1)

    @property
    def own_size(self) -> tuple[str, ...]:
        """Srun's options for its nodes and tasks, if the header reserves another number of tasks."""
        return self.size if self.ntasks_per_node != self.reserved else ()

    @property
    def procs_per_task(self) -> int:
        """Ranks of each task."""
        return self.launcher.procs_per_task(self.layout.gpus_per_node)

    @property
    def size(self) -> tuple[str, ...]:
        """Srun's options for its nodes and tasks."""
        nodes, tasks = self.layout.nodes, self.ntasks_per_node
        return (f"--nodes={nodes}", f"--ntasks={nodes * tasks}", f"--ntasks-per-node={tasks}")


def find_ranks(
    inputs: Inputs, place: Place, launcher: Launcher, layout: Layout, first: Ranks | None = None
) -> Ranks:
    """The ranks of a step on the nodes of a layout; `first` are those of the first step, for a further one.

    Raises:
        RequestError: the launcher cannot start the program there.
    """
    request, site, _ = inputs
    own = launcher.ntasks_per_node(layout.gpus_per_node)
    reserved = request.ntasks_per_node or own
    check_shape(launcher, layout)
    check_per_task(request, layout.nodes * own)
    shape = Shape(*layout, launcher.shape == "task-per-gpu", uses_container(request, site))
    settings = settings_of(site, place, shape)
    return Ranks(
        launcher=launcher,
        layout=layout,
        settings=settings,
        program=find_program(request, launcher),
        cpus=cpus_of_next(first.cpus, launcher, layout, reserved if launcher.any_tasks else own)
        if first
        else cpus(inputs, launcher, layout, place),
        variables=task_variables(request, site, settings, launcher, layout),
        reserved=reserved,
    )
