"""Site: the facts about one cluster that a batch script depends on.

A site is data. It is written as TOML in `site_profiles/`, and every field that
is unset is unknown: the planner then asks the user, or reports which default it used.
"""

from functools import cached_property
from typing import Annotated, Literal

from msgspec import Meta, Struct

from slurmgen.slurm import durations
from slurmgen.slurm.sbatch_options import SbatchOptions
from slurmgen.slurm.shell import Variable, VariableName, word

MOST = 1_000_000
"A larger number is a typing error, whatever it counts."

Count = Annotated[int, Meta(ge=1, le=MOST)]
Limit = Annotated[int, Meta(ge=0, le=MOST)]
Name = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*\Z",
        description="letters, digits and _ . + -, beginning with none of . + -",
    ),
]
Folder = Annotated[
    str, Meta(pattern=r"^/[A-Za-z0-9_./+-]*\Z", description="a full path of letters, digits and _ . / + -")
]
Environment = dict[VariableName, str]

GpuRequest = Literal["gres", "gpus-per-node", "gpus"]
MemoryForm = Literal["mem", "mem-per-gpu", "mem-per-cpu", "none"]
HostRule = Literal["hostname", "ip"]
LoginMethod = Literal["password", "key", "otp"]


class Fact(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of every part of a profile: frozen, and closed to unknown keys."""


class Node(Fact, frozen=True):
    """One GPU node, as Slurm counts it."""

    gpus: Count | None = None
    cpus: Count | None = None
    memory: str | None = None
    "All the memory that a job can request on the node, such as '808G'."


class GpuType(Node, frozen=True):
    """A GPU type by its Slurm name, and how its nodes differ from the usual one (see sites/nodes.py)."""

    label: str | None = None


class Gpu(Fact, frozen=True):
    """How GPUs are requested on this site."""

    request: GpuRequest = "gres"
    type_required: bool = False
    types: dict[Name, GpuType] = {}


class Limits(Fact, frozen=True):
    """What one job may request; unset means that no limit is known."""

    max_time: str | None = None
    "As Slurm writes it; UNLIMITED and INFINITE mean no limit."
    max_nodes: Limit | None = None
    max_gpus: Limit | None = None

    @property
    def max_seconds(self) -> int | None:
        """The longest time of a job in seconds; None if there is no limit."""
        return durations.limit(self.max_time)

    @property
    def has_gpus(self) -> bool:
        """Whether a job may have GPUs, as far as the profile says."""
        return self.max_gpus != 0


class Partition(Limits, frozen=True):
    """A Slurm partition; `node` overrides the site's node."""

    default: bool = False
    node: Node | None = None


class Qos(Limits, frozen=True):
    """A quality of service with the limits it brings."""


class Account(Fact, frozen=True):
    """Whether a job must name the account it is charged to."""

    required: bool = False
    hint: str | None = None
    "How users find theirs; shown when it is missing."


class Cpu(Fact, frozen=True):
    """CPUs that belong to a GPU."""

    per_gpu: Count | None = None
    multiple_of: Count = 1


class Memory(Fact, frozen=True):
    """How memory is requested, and how much belongs to a GPU."""

    form: MemoryForm = "mem"
    per_gpu: str | None = None


class Modules(Fact, frozen=True):
    """Environment modules."""

    init: tuple[str, ...] = ()
    "Whole commands that run before the modules are loaded; in every job where `load` is empty."
    load: tuple[str, ...] = ()
    "Module names."


class Env(Fact, frozen=True, dict=True):
    """Environment variables by the jobs they apply to. A `$NAME` in a value is expanded in the job."""

    always: Environment = {}
    multi_gpu: Environment = {}
    multi_node: Environment = {}
    container: Environment = {}
    "Set only inside the container; they override those of its image."
    task: Environment = {}
    "Exported by each task of the job step, so that it has its own $SLURM_LOCALID and the like."
    notes: dict[str, str] = {}
    "Why a variable is there, by its name; becomes the comment above it."

    @cached_property
    def ready(self) -> tuple[dict[str, Variable], ...]:
        """The variables outside a container, as shell words: for one rank, one node, and several nodes."""
        groups = (self.always, self.always | self.multi_gpu, self.always | self.multi_gpu | self.multi_node)
        return tuple(
            {name: Variable(name, value, word(value), self.notes.get(name)) for name, value in values.items()}
            for values in groups
        )


class Container(Fact, frozen=True):
    """The container that a job's processes run in."""

    engine: Literal["apptainer"] = "apptainer"
    image: str | None = None
    binds: tuple[str, ...] = ()
    multi_node_binds: tuple[str, ...] = ()
    multi_node_modules: tuple[str, ...] = ()
    "Modules that provide the host libraries to bind on several nodes."
    multi_node_library_path: tuple[Folder, ...] = ()
    "Folders put first in LD_LIBRARY_PATH inside the container on several nodes."


class Rendezvous(Fact, frozen=True):
    """The rendezvous address of the ranks of several nodes."""

    host: HostRule = "hostname"
    host_in_container: HostRule | None = None
    suffix: str = ""
    "Appended to the host name, such as JUWELS' `i` for its InfiniBand name."


class Login(Fact, frozen=True):
    """The login host, and its authentication methods."""

    host: str | None = None
    methods: tuple[LoginMethod, ...] = ()
    note: str | None = None


class Site(Fact, frozen=True):
    """One cluster. See docs/sites.md for how to write a profile."""

    name: Name
    title: str = ""
    extends: Name | None = None
    python_env: str | None = None
    "Where Python comes from: none, uv, uv:FOLDER, venv:FOLDER or conda:NAME."
    time: str | None = None
    "The default time limit of a job."
    login: Login = Login()
    account: Account = Account()
    partitions: dict[Name, Partition] = {}
    qos: dict[Name, Qos] = {}
    node: Node = Node()
    gpu: Gpu = Gpu()
    cpu: Cpu = Cpu()
    memory: Memory = Memory()
    modules: Modules = Modules()
    env: Env = Env()
    container: Container | None = None
    rendezvous: Rendezvous = Rendezvous()
    sbatch: SbatchOptions = {}
    "Further directives of every job, by long option name; `true` for one without a value."

    @property
    def default_partition(self) -> str | None:
        """The partition of a job that names none."""
        for name, partition in self.partitions.items():
            if partition.default:
                return name
        return None
