"""Plan: every number of one job on one site, each with its reason.

`resolve` is pure: the same request and site give the same plan, on any machine, at any time.
"""

import re
from pathlib import PurePosixPath

from msgspec import Struct

from slurmgen.errors import RequestError, did_you_mean
from slurmgen.launchers import LAUNCHERS, Geometry, Launcher
from slurmgen.plan.directives import gpu_directive, mem_directive
from slurmgen.plan.environment import Setup, find_setup
from slurmgen.plan.explanation import explained
from slurmgen.plan.job_step import Step, find_step
from slurmgen.plan.layout import Layout, lay_out
from slurmgen.plan.logs import check_error_file, log_folder
from slurmgen.plan.placement import check_limits, find_place, roomier
from slurmgen.plan.reasons import Reason, origin_of
from slurmgen.plan.requeue import further_options
from slurmgen.plan.resources import Cpus, Reasoned, cpus, memory, time
from slurmgen.plan.variables import check_per_task, task_variables, variables
from slurmgen.request import Request, check_form, check_text, command_of
from slurmgen.sites.model import Rendezvous, Site
from slurmgen.sites.nodes import Place
from slurmgen.slurm import durations, sbatch_options
from slurmgen.slurm.shell import Variable, unprintable

DEFAULT_FRAMEWORK = "ddp"
DEFAULT_GPUS = 1

LONGEST_NAME = 200
"Of a job: its log is called NAME-ID.out, and the name of a file has 255 bytes at most."
_JOB_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+=:@-]*")


class Plan(Struct, frozen=True, kw_only=True, gc=False):
    """Everything a script says, with nothing left to decide."""

    site: str
    name: str
    "Name of the job."
    launcher: Launcher
    place: Place
    layout: Layout
    cpus: Cpus
    memory: Reasoned
    "Of one node."
    time_limit: Reasoned
    setup: Setup
    variables: tuple[Variable, ...]
    rendezvous: Rendezvous | None
    "How the ranks find each other; None where they need nothing from the batch script."
    step: Step
    gpu_directive: tuple[str, str]
    mem_directive: tuple[tuple[str, str], ...]
    extra_directives: tuple[tuple[str, str], ...]
    log_dir: str | None
    command: str
    "The slurmgen command that gives this plan."
    asked: Request
    files: dict[str, str] = {}
    "The file that a field of the request comes from, if not from whoever asks."

    @property
    def framework(self) -> str:
        """Name of the launcher."""
        return self.launcher.name

    @property
    def nodes(self) -> int:
        """Nodes of the job."""
        return self.layout.nodes

    @property
    def gpus_per_node(self) -> int:
        """GPUs on each node."""
        return self.layout.gpus_per_node

    @property
    def world_size(self) -> int:
        """Ranks in all: nodes x ntasks_per_node x procs_per_task, one a GPU."""
        return self.nodes * self.gpus_per_node

    @property
    def ntasks_per_node(self) -> int:
        """Tasks that srun starts on each node."""
        return self.launcher.ntasks_per_node(self.gpus_per_node)

    @property
    def procs_per_task(self) -> int:
        """Ranks that each task becomes."""
        return self.launcher.procs_per_task(self.gpus_per_node)

    @property
    def cpus_per_task(self) -> int:
        """CPUs of each task."""
        return self.cpus.per_task

    @property
    def mem(self) -> str | None:
        """Memory of a node; None where the site wants none said."""
        return self.memory.value

    @property
    def time(self) -> str:
        """Time limit, as HH:MM:SS or D-HH:MM:SS."""
        return self.time_limit.value or ""

    @property
    def time_seconds(self) -> int:
        """Time limit in seconds."""
        return durations.seconds(self.time)

    @property
    def env(self) -> dict[str, str]:
        """The variables the job exports, by name."""
        return {variable.name: variable.value for variable in self.variables}

    @property
    def script(self) -> str:
        """The training script, from the folder the job starts in."""
        return self.asked.script or self.launcher.bundled_script

    @property
    def requeue(self) -> bool:
        """Whether the job goes back into the queue when its ranks leave unfinished."""
        return bool(self.asked.requeue)

    @property
    def why(self) -> dict[str, Reason]:
        """Why each value is what it is, by its key in `as_dict`: who decided it, and that in words."""
        return explained(self)

    @property
    def reasons(self) -> dict[str, str]:
        """The same in words alone."""
        return {key: reason.text for key, reason in self.why.items()}

    @property
    def output(self) -> str:
        """Log file, as in --output, from the folder the job starts in."""
        is_array = "array" in dict(self.extra_directives)
        pattern = "%x-%A_%a.out" if is_array else "%x-%j.out"
        return f"{self.log_dir}/{pattern}" if self.log_dir else pattern

    @property
    def directives(self) -> tuple[tuple[str, str], ...]:
        """The `#SBATCH` lines in the order they stand: long option name and value."""
        said = (
            ("job-name", self.name),
            ("account", self.asked.account),
            ("partition", ",".join(self.place.partitions) or None),
            ("qos", self.asked.qos),
            ("time", self.time),
            ("nodes", str(self.nodes)),
            ("ntasks-per-node", str(self.ntasks_per_node)),
            ("cpus-per-task", str(self.cpus_per_task)),
            self.gpu_directive,
            *self.mem_directive,
            ("output", self.output),
            *self.extra_directives,
        )
        return tuple([(key, value) for key, value in said if value is not None])


def as_dict(plan: Plan) -> dict[str, object]:
    """The plan as `explain --json` prints it; every value is a plain one."""
    numbers = (
        "site framework name nodes gpus_per_node ntasks_per_node procs_per_task cpus_per_task world_size "
        "mem time requeue"
    ).split()
    why = plan.why
    return {key: getattr(plan, key) for key in numbers} | {
        "gpu_type": plan.place.gpu_type,
        "partition": ",".join(plan.place.partitions) or None,
        "account": plan.asked.account,
        "container": plan.setup.image or None,
        "python_env": plan.setup.python_env,
        "modules": list(plan.setup.modules),
        "rendezvous": plan.rendezvous.host if plan.rendezvous else None,
        "directives": dict(plan.directives),
        "env": plan.env,
        "task_env": {variable.name: variable.value for variable in plan.step.variables},
        "launch": [" ".join(words) for words in plan.step.lines],
        "script": plan.script,
        "output": plan.output,
        "command": plan.command,
        "reasons": {key: reason.text for key, reason in why.items()},
        "sources": {key: reason.source for key, reason in why.items()},
    }


def resolve(
    request: Request, site: Site, command: str | None = None, files: dict[str, str] | None = None
) -> Plan:
    """Decide every number of a job.

    Args:
        request: what was asked for.
        site: where it is to run.
        command: the command line to name as the script's maker; the request's own if None.
        files: the files that fields of the request come from, such as slurmgen.toml, for the reasons.

    Raises:
        RequestError: what was asked for cannot be had; it says what can.
    """
    made_by = command_of(site.name, check_form(request))
    if unprintable(made_by) or unprintable(request.env):  # together they say every value of the request
        check_text(request)
    origin = origin_of(files or {})
    launcher = _launcher(request)
    gpus = request.gpus or DEFAULT_GPUS
    _check_ranks(launcher, gpus, request.nodes or 1)
    place = find_place(request, site)
    layout = _layout(gpus, request.nodes, place, site, origin("nodes"))
    check_limits(site, place, gpus, layout.nodes)
    geometry = Geometry(layout.nodes, layout.gpus_per_node)
    check_per_task(request, layout.nodes * launcher.ntasks_per_node(layout.gpus_per_node))
    setup = find_setup(request, origin, site, layout.nodes)
    script = _script(request, launcher)
    cpu = cpus(request, origin, site, launcher, layout, place.node)
    mem = memory(request, origin, site, layout, place.node)
    limit = time(request, origin, site, place.limits)
    further = further_options(request, site, limit.value)
    log_dir = log_folder(request.log_dir)
    check_error_file(further.get("error"), log_dir)
    in_task = task_variables(request, site)
    return Plan(
        site=site.name,
        name=_job_name(request.name or PurePosixPath(script).stem, launcher),
        launcher=launcher,
        place=place,
        layout=layout,
        cpus=cpu,
        memory=mem,
        time_limit=limit,
        setup=setup,
        variables=variables(request, site, launcher, geometry, setup, cpu.per_gpu),
        rendezvous=_rendezvous(request, site, setup) if launcher.meets(geometry) else None,
        step=find_step(request, further, setup, launcher, geometry, cpu.per_task, script, in_task),
        gpu_directive=gpu_directive(site.gpu.request, place.gpu_type, geometry),
        mem_directive=mem_directive(site, mem.value, geometry, cpu.per_gpu),
        extra_directives=tuple([sbatch_options.checked(key, value) for key, value in further.items()]),
        log_dir=log_dir,
        command=command or made_by,
        asked=request,
        files=files or {},
    )


def _launcher(request: Request) -> Launcher:
    name = request.framework or DEFAULT_FRAMEWORK
    if name not in LAUNCHERS:
        raise RequestError(f"unknown framework {name!r}", did_you_mean(name, LAUNCHERS))
    return LAUNCHERS[name]


def _layout(gpus: int, nodes: int | None, place: Place, site: Site, nodes_why: Reason) -> Layout:
    try:
        return lay_out(gpus, nodes, place.node.gpus, place.node_name, nodes_why)
    except RequestError as error:
        types = " or ".join(roomier(site, place.node))
        hint = f" Nodes with more GPUs: --gpu-type {types}." if types else ""
        raise RequestError(error.fact, error.hint + hint) from None


def _check_ranks(launcher: Launcher, gpus: int, nodes: int) -> None:
    most = launcher.max_world_size
    if most and max(gpus, nodes) > most:
        idle = f"{gpus - most} of {gpus} GPUs" if gpus > most else f"{nodes - most} of {nodes} nodes"
        raise RequestError(
            f"{launcher.name} starts one process, so {idle} would idle",
            "Ask for --gpus 1 on one node, or for --framework ddp, lightning or accelerate.",
        )


def _script(request: Request, launcher: Launcher) -> str:
    script = request.script or launcher.bundled_script
    if script.startswith("-"):
        raise RequestError(f"--script {script!r} begins with a dash", f"Write ./{script}.")
    return script


def _job_name(name: str, launcher: Launcher) -> str:
    if name in launcher.refused_names:
        raise RequestError(
            f"{launcher.name} takes a job named {name!r} for an interactive one", "Add --name."
        )
    if len(name) > LONGEST_NAME:
        raise RequestError(
            f"the job name has {len(name)} characters, too many for the name of its log",
            f"Give one of at most {LONGEST_NAME} with --name.",
        )
    if not _JOB_NAME.fullmatch(name):
        raise RequestError(
            f"the job name {name!r} cannot stand in a log's file name",
            "Give another with --name; letters, digits and _ . + = : @ - can stand in one.",
        )
    return name


def _rendezvous(request: Request, site: Site, setup: Setup) -> Rendezvous:
    rule = site.rendezvous
    if rule.suffix and request.rendezvous == "c10d":
        raise RequestError(
            f"with c10d no torchrun knows itself by a name with {site.name}'s suffix {rule.suffix!r}",
            "Leave --rendezvous out.",
        )
    inside = rule.host_in_container if setup.container else None
    return Rendezvous(host=inside or rule.host, suffix=rule.suffix)
