"""Plan: every number of one job on one site, each with its reason.

`resolve` is pure: the same request and site give the same plan, on any machine, at any time.
"""

import re
from pathlib import PurePosixPath

from msgspec import Struct

from slurmgen.errors import RequestError, did_you_mean
from slurmgen.launchers import LAUNCHERS, Geometry, Launcher
from slurmgen.plan.directives import gpu_directive, mem_directive
from slurmgen.plan.layout import Layout, lay_out
from slurmgen.plan.place import Place, check_limits, find_place, roomier
from slurmgen.plan.reasons import reasons
from slurmgen.plan.requeue import further_options
from slurmgen.plan.resources import Cpus, Reasoned, cpus, memory, time
from slurmgen.plan.setup import Setup, find_setup
from slurmgen.plan.step import Step, find_step
from slurmgen.plan.variables import variables
from slurmgen.request import Request, check_form, check_text, command_of
from slurmgen.site import Rendezvous, Site
from slurmgen.slurm import durations, options
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
    sources: dict[str, str] = {}
    "Where a field of the request was said, if not by whoever asks."

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
    def reasons(self) -> dict[str, str]:
        """Why each number is what it is, by its key in `as_dict`."""
        return reasons(self)

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
            ("account", self.place.account),
            ("partition", self.place.partition),
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
    return {key: getattr(plan, key) for key in numbers} | {
        "partition": plan.place.partition,
        "account": plan.place.account,
        "container": plan.setup.image or None,
        "python_env": plan.setup.python_env,
        "modules": list(plan.setup.modules),
        "rendezvous": plan.rendezvous.host if plan.rendezvous else None,
        "directives": dict(plan.directives),
        "env": plan.env,
        "launch": [" ".join(words) for words in plan.step.lines],
        "script": plan.script,
        "output": plan.output,
        "command": plan.command,
        "reasons": plan.reasons,
    }


def resolve(
    request: Request, site: Site, command: str | None = None, sources: dict[str, str] | None = None
) -> Plan:
    """Decide every number of a job.

    Args:
        request: what was asked for.
        site: where it is to run.
        command: the command line to name as the script's maker; the request's own if None.
        sources: where fields of the request were said, for the reasons, such as `from slurmgen.toml`.

    Raises:
        RequestError: what was asked for cannot be had; it says what can.
    """
    made_by = command_of(site.name, check_form(request))
    if unprintable(made_by) or unprintable(request.env):  # together they say every value of the request
        check_text(request)
    _count("cpus-per-gpu", request.cpus_per_gpu)
    launcher = _launcher(request)
    gpus = _count("gpus", request.gpus) or DEFAULT_GPUS
    _check_ranks(launcher, gpus, request.nodes or 1)
    place = find_place(request, site)
    layout = _layout(gpus, _count("nodes", request.nodes), place, site)
    check_limits(place, gpus, layout.nodes)
    geometry = Geometry(layout.nodes, layout.gpus_per_node)
    setup = find_setup(request, site, layout.nodes)
    script = _script(request, launcher)
    cpu = cpus(request, site, launcher, layout, place.node)
    mem = memory(request, site, layout, place.node)
    limit = time(request, site, place.limits)
    further = further_options(request, site, limit.value)
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
        variables=variables(request, site, geometry, setup.container, cpu.per_gpu),
        rendezvous=_rendezvous(request, site, setup) if launcher.meets(geometry) else None,
        step=find_step(request, further, setup, launcher, geometry, cpu.per_task, script),
        gpu_directive=gpu_directive(site.gpu.request, request.gpu_type, geometry),
        mem_directive=mem_directive(site, mem.value, geometry, cpu.per_gpu),
        extra_directives=tuple([options.checked(key, value) for key, value in further.items()]),
        log_dir=_log_dir(request.log_dir),
        command=command or made_by,
        asked=request,
        sources=sources or {},
    )


def _launcher(request: Request) -> Launcher:
    name = request.framework or DEFAULT_FRAMEWORK
    if name not in LAUNCHERS:
        raise RequestError(f"unknown framework {name!r}", did_you_mean(name, LAUNCHERS))
    return LAUNCHERS[name]


def _count(key: str, value: int | None) -> int | None:
    if value is not None and value < 1:
        raise RequestError(f"--{key} is {value}", "It takes a whole number from 1 on.")
    return value


def _layout(gpus: int, nodes: int | None, place: Place, site: Site) -> Layout:
    try:
        return lay_out(gpus, nodes, place.node.gpus, place.node_name)
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


def _log_dir(folder: str | None) -> str | None:
    if folder is not None and re.search(r"""["'\\\s#%]|^-|^$""", folder):
        raise RequestError(
            f"--log-dir {folder!r} cannot stand in a directive", "Spaces, quotes, # and % cannot stand in it."
        )
    return folder.rstrip("/") or "/" if folder else None


def _rendezvous(request: Request, site: Site, setup: Setup) -> Rendezvous:
    rule = site.rendezvous
    if rule.suffix and request.rendezvous == "c10d":
        raise RequestError(
            f"with c10d no torchrun knows itself by a name with {site.name}'s suffix {rule.suffix!r}",
            "Leave --rendezvous out.",
        )
    inside = rule.host_in_container if setup.container else None
    return Rendezvous(host=inside or rule.host, suffix=rule.suffix)
