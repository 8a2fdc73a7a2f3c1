"""A plan: what a job runs, with which resources, and why."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from msgspec import Struct

from slurmgen.containers.base import Call
from slurmgen.errors import RequestError, did_you_mean
from slurmgen.launchers import ALIASES, LAUNCHERS, Launcher, Layout
from slurmgen.request.model import NONE, Parameters, Request
from slurmgen.sites.model import Container, Rendezvous, Site
from slurmgen.sites.nodes import Place, Settings
from slurmgen.slurm import units
from slurmgen.slurm.sbatch_options import array_size, leaves_out
from slurmgen.slurm.shell import Variable


class Array(Struct, frozen=True):
    """One job array of a sweep."""

    first: int
    "The task of the sweep that is task 0 of the array."
    indexes: tuple[int, ...]
    "The tasks of the array, as Slurm numbers them."
    limit: int | None = None

    @property
    def directive(self) -> str:
        """The value of --array.

        >>> Array(0, (0, 1, 2, 5), 2).directive
        '0-2,5%2'
        """
        return _ranges(self.indexes) + (f"%{self.limit}" if self.limit else "")

    @property
    def option(self) -> str:
        """The value of --array and the argument of the script with which sbatch submits it."""
        return f"--array={self.directive} SCRIPT {self.first}"


class Row(Struct, frozen=True):
    """A run in the script's table."""

    number: int
    words: tuple[str, ...]
    "Its arguments, as shell words."


class Sweeping(Struct, frozen=True):
    """The sweep of a plan."""

    runs: tuple[Parameters, ...]
    "The parameters of each run."
    rows: tuple[Row, ...]
    arrays: tuple[Array, ...]
    per_task: int = 1
    "Runs of a task, which share a GPU."
    current: int = 0
    "Which of the arrays the plan is of."

    @property
    def array(self) -> Array:
        """The array that the plan is of."""
        return self.arrays[self.current]

    @property
    def tasks(self) -> int:
        """Tasks of all arrays."""
        return sum(len(array.indexes) for array in self.arrays)

    def table(self) -> dict[int, tuple[Parameters, ...]]:
        """The parameters of the runs of each task, by its index in the array."""
        first, size = self.array.first, self.per_task
        return {
            index: self.runs[(first + index) * size : (first + index + 1) * size]
            for index in self.array.indexes
        }


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as Slurm lists them."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in parts)


_COMMENTS = {
    "USR2": "Before the time limit, Slurm sends USR2. Launchers ignore it; ranks must save and stop.",
    "TERM": "{} s before the time limit, each task sends TERM to its ranks. They must save and stop.",
    "file": "{} s before the time limit, STOP_FILE appears. The script must watch it: save and stop.",
}


class Notice(Struct, frozen=True):
    """How the ranks learn that the time limit is near."""

    by: str
    "USR2, TERM or file."
    lead: int
    "Seconds before the time limit."

    @property
    def comment(self) -> str:
        """What happens then, for the script."""
        return _COMMENTS[self.by].format(self.lead)


class Staging(Struct, frozen=True):
    """The steps that copy data and remove it: lines of the batch script."""

    step: str
    removal: str


T = TypeVar("T")

REQUEST, PROFILE, DEFAULT, DERIVED = "request", "profile", "default", "derived"


class Reason(NamedTuple):
    """Why a value is what it is."""

    source: str
    "`request`, the file that sets the value, `profile`, `default`, or `derived` from other values."
    text: str

    def within(self, form: str) -> "Reason":
        """The same source; its text replaces the `{}` of `form`."""
        return Reason(self.source, form.format(self.text))


class Reasoned(Struct, frozen=True):
    """A value and its reason."""

    value: str | None
    why: Reason


Origin = Callable[[str], Reason]
"The reason for a value that a field of the request sets."


def origin_of(files: Mapping[str, str]) -> Origin:
    """The origin of each field: its file in `files`, maybe with a table, else the command line."""

    def origin(field: str) -> Reason:
        return (
            Reason(files[field].partition(" ")[0], f"from {files[field]}")
            if field in files
            else Reason(REQUEST, "as requested")
        )

    return origin


def from_profile(site: Site, key: str) -> Reason:
    """The reason for a value of the profile, with the name of its source."""
    source = site.source_of(key)
    cited = f" [{source}]" if source else ""
    return Reason(PROFILE, f"from the profile of {site.name}{cited}")


def default(text: str) -> Reason:
    """The reason for a default."""
    return Reason(DEFAULT, text)


def derived(text: str) -> Reason:
    """The reason for a value that follows from other values."""
    return Reason(DERIVED, text)


NO_FACT = default("slurmgen's default, because the profile sets none")


def first(*choices: tuple[T | None, Reason]) -> tuple[T, Reason]:
    """The first choice that has a value, with its reason."""
    for value, why in choices:
        if value is not None:
            return value, why
    raise ValueError(choices)


class Setup(Struct, frozen=True, kw_only=True):
    """The software of a job, with the reasons for it."""

    container: Container | None = None
    image: str = ""
    "A shell word."
    is_file: bool = False
    "The image is a path on the cluster."
    lookup: str = ""
    "A command that finds the image in the engine's store; empty for a file."
    call: Call | None = None
    "The container for its engine."
    fetch: tuple[str, ...] = ()
    "Lines that fetch the image from a registry."
    python_env: str = NONE
    python_setup: tuple[str, ...] = ()
    line_in_task: str = ""
    "A shell line that each task runs in the container first."
    modules: tuple[str, ...] = ()
    "Whole commands."
    needs: tuple[str, ...] = ()
    "Variables that the modules must set."
    why_container: Reason
    why_python: Reason
    why_modules: Reason


PATH = ".slurmgen/secrets"
"The file, in the folder that the job runs in."


class JobSecrets(Struct, frozen=True):
    """What the script needs to read its secrets."""

    names: tuple[str, ...]
    prefix: str
    "The container engine's prefix of host variables; empty for none."
    tasks: bool
    "A job array, whose tasks share the file."
    path: str = PATH


class Shared(Struct, frozen=True):
    """What all steps of a job share."""

    setup: Setup
    "Its software, with a container if any."
    further: dict[str, str]
    "The sbatch options that not every plan has."
    exported: tuple[str, ...]
    "The names of the variables that the script exports."


class Cpus(Struct, frozen=True):
    """CPUs of a rank, a task and a node."""

    per_rank: int
    per_task: int
    per_node: int
    why: Reason


class Program(Struct, frozen=True):
    """A program with its arguments, as shell words that follow the launcher's."""

    words: tuple[str, ...]
    name: str
    "The name of a job that has none."
    is_python: bool = True
    "Whether Python runs it."
    script: str | None = None
    "Its file, relative to the folder that the job starts in."


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


class Step(Struct, frozen=True):
    """A job step, and how srun starts its ranks."""

    ranks: Ranks
    lines: tuple[tuple[str, ...], ...]
    "Shell words by part: srun, the container, the launcher, the script with its arguments."
    expands_in_task: bool
    "Each task, not the batch script, expands some variables."


class Plan(Struct, frozen=True, kw_only=True):
    """Everything that the script needs, with nothing left to decide."""

    site: str
    profile: Site
    name: str
    "Name of the job."
    place: Place
    layout_reason: Reason
    memory: Reasoned
    "Of one node."
    time_limit: Reasoned
    setup: Setup
    variables: tuple[Variable, ...]
    secrets: JobSecrets | None
    "The variables that it reads from a file; None for none."
    rendezvous: Rendezvous | None
    "How the ranks find each other; None where they need no address from the batch script."
    notice: Notice | None
    "How the ranks learn that the time limit is near; None without --requeue."
    sweep: Sweeping | None
    "Its runs with parameters of their own; None for one run."
    step: Step
    preflight: tuple[tuple[str, ...], ...]
    "Shell words by part, as of the step: the check of the nodes before it; empty for none."
    then: tuple[Step, ...]
    "Further steps, each of which runs when the one before has succeeded."
    staging: Staging | None
    "The data that each node copies before the step."
    gpu_directive: tuple[tuple[str, str], ...]
    mem_directive: tuple[tuple[str, str], ...]
    extra_directives: tuple[tuple[str, str], ...]
    log_dir: str | None
    command: str
    "The slurmgen command that makes this plan."
    request: Request
    files: dict[str, str] = {}
    "The file that sets a field of the request, if any."
    gate: int = 0
    "Seconds that the script waits for its gate; 0 for a job without one. See `slurmgen.plan.requeue`."

    @property
    def ranks(self) -> Ranks:
        """The ranks of the first step, which the header describes."""
        return self.step.ranks

    @property
    def account(self) -> str | None:
        """The account that is charged, with the suffix that the site adds."""
        account, suffix = self.request.account, self.ranks.settings.account_suffix
        return account + suffix if account and not account.endswith(suffix) else account

    @property
    def gpu_hours(self) -> float:
        """GPU hours of a job, all tasks of its arrays included, that uses its whole time limit."""
        return self.ranks.layout.gpus * self.time_seconds * self.tasks / 3600

    @property
    def tasks(self) -> int:
        """Tasks of its array, such as segments, or of all arrays of its sweep; 1 for a plain job."""
        return self.sweep.tasks if self.sweep else array_size(dict(self.extra_directives).get("array", "0"))

    @property
    def framework(self) -> str:
        """Name of the launcher."""
        return self.ranks.launcher.name

    @property
    def nodes(self) -> int:
        """Nodes of the job."""
        return self.ranks.layout.nodes

    @property
    def gpus_per_node(self) -> int:
        """GPUs on each node."""
        return self.ranks.layout.gpus_per_node

    @property
    def world_size(self) -> int:
        """Ranks of the job: nodes x ntasks_per_node x procs_per_task."""
        return self.nodes * self.ntasks_per_node * self.procs_per_task

    @property
    def ntasks_per_node(self) -> int:
        """Tasks that srun starts on each node."""
        return self.ranks.ntasks_per_node

    @property
    def procs_per_task(self) -> int:
        """Ranks of each task."""
        return self.ranks.procs_per_task

    @property
    def cpus_per_task(self) -> int:
        """CPUs of each task."""
        return self.ranks.cpus.per_task

    @property
    def mem(self) -> str | None:
        """Memory per node; None where the site allows no memory request."""
        return self.memory.value

    @property
    def time(self) -> str:
        """Time limit, as HH:MM:SS or D-HH:MM:SS."""
        return self.time_limit.value or ""

    @property
    def time_seconds(self) -> int:
        """Time limit in seconds."""
        return units.seconds(self.time)

    @property
    def env(self) -> dict[str, str]:
        """The variables the job exports, by name."""
        return {variable.name: variable.value for variable in self.variables}

    @property
    def script(self) -> str | None:
        """The script, relative to the folder that the job starts in; None for a module or a command."""
        return self.ranks.program.script

    @property
    def segments(self) -> int:
        """The array tasks that the job may take, one after the other; 1 for a plain job."""
        return self.request.segments or 1

    @property
    def requeue(self) -> bool:
        """Whether the job is requeued when its ranks exit unfinished."""
        return bool(self.request.requeue)

    @property
    def later_scripts(self) -> tuple[str, ...]:
        """The scripts of the further steps."""
        scripts = (one.ranks.program.script for one in self.then)
        return tuple([script for script in scripts if script is not None])

    @property
    def goes_on(self) -> bool:
        """Whether lines of the script follow the step, even if it fails."""
        return self.request.may_stop_early or bool(self.request.after)

    @property
    def output(self) -> str:
        """The log file, as in --output, relative to the folder that the job starts in."""
        further = dict(self.extra_directives)
        if "output" in further:
            return further["output"].strip('"')
        if self.request.in_segments:
            return f"{self.log_dir}/%x-%A.out" if self.log_dir else "%x-%A.out"
        is_array = "array" in further
        pattern = "%x-%A_%a.out" if is_array else "%x-%j.out"
        return f"{self.log_dir}/{pattern}" if self.log_dir else pattern

    @property
    def _tasks(self) -> tuple[tuple[str, str], ...]:
        if leaves_out(self.request.sbatch, "nodes"):
            return (("ntasks", str(self.nodes * self.ranks.reserved)),)
        return ("nodes", str(self.nodes)), ("ntasks-per-node", str(self.ranks.reserved))

    @property
    def directives(self) -> tuple[tuple[str, str], ...]:
        """The `#SBATCH` lines in order: long option name and value."""
        options = (
            ("job-name", self.name),
            ("account", self.account),
            ("partition", ",".join(self.place.partitions) or None),
            ("qos", self.place.qos),
            ("time", self.time),
            *self._tasks,
            ("cpus-per-task", str(self.ranks.reserved_cpus)),
            *self.gpu_directive,
            *self.mem_directive,
            ("output", dict(self.extra_directives).get("output", self.output)),
            *(option for option in self.extra_directives if option[0] != "output"),
        )
        left_out = [key for key in self.request.sbatch if leaves_out(self.request.sbatch, key)]
        return tuple([(key, value) for key, value in options if value is not None and key not in left_out])


DEFAULT_FRAMEWORK = "ddp"
FRAMEWORK_WITHOUT_GPUS = "python"
DEFAULT_GPUS = 1


class Inputs(NamedTuple):
    """A request and the site that it is for."""

    request: Request
    site: Site
    origin: Origin
    "Where each field of the request comes from."


def requested_gpus(request: Request) -> int:
    """GPUs of the whole job."""
    return DEFAULT_GPUS if request.gpus is None else request.gpus


def find_launcher(request: Request, site: Site) -> Launcher:
    """The launcher of a request. A rendezvous is one of torchrun, so that such a request keeps torchrun."""
    name = request.framework or (DEFAULT_FRAMEWORK if requested_gpus(request) else FRAMEWORK_WITHOUT_GPUS)
    name = ALIASES.get(name.lower(), name)
    if name not in LAUNCHERS:
        raise RequestError(f"unknown framework {name!r}", did_you_mean(name, LAUNCHERS, "framework"))
    by_srun = name == "ddp" and site.launch.ddp == "srun" and request.rendezvous is None
    return LAUNCHERS["srun" if by_srun else name]
