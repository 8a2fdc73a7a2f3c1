"""Site: the facts about one cluster that a batch script depends on.

A site is data. It is written as TOML in `site_profiles/`, and every field that
is unset is unknown: the planner then asks the user, or says which default it took.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from slurmgen.slurm import durations
from slurmgen.slurm.sbatch_options import SbatchOptions
from slurmgen.slurm.shell import VariableName

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

GpuRequest = Literal["gres", "gpus-per-node", "gpus", "none"]
"`none`: the site refuses a request; its partitions bring the GPUs."
Vendor = Literal["nvidia", "amd"]
MemoryForm = Literal["mem", "mem-per-gpu", "mem-per-cpu", "none"]
HostRule = Literal["hostname", "ip"]
LoginMethod = Literal["password", "key", "otp", "certificate"]
EngineName = Literal["apptainer", "singularity", "pyxis", "edf", "podman-hpc", "shifter", "charliecloud"]
Mark = Literal["documentation", "configuration", "users", "inferred"]


class Fact(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of every part of a profile: frozen, and closed to unknown keys."""


class Node(Fact, frozen=True):
    """One GPU node, as Slurm counts it."""

    gpus: Count | None = None
    cpus: Count | None = None
    memory: str | None = None
    "All the memory a job can ask for on the node, such as '808G'."


class GpuType(Node, frozen=True):
    """A GPU type by its Slurm name, and how its nodes differ from the usual one (see sites/nodes.py)."""

    label: str | None = None
    constraint: str | None = None
    "The --constraint that selects the type, on sites whose GPU requests name no type."


class Gpu(Fact, frozen=True):
    """How jobs request GPUs."""

    request: GpuRequest = "gres"
    type_required: bool = False
    default_type: Name | None = None
    "The type of a job that names none."
    types: dict[Name, GpuType] = {}
    vendor: Vendor = "nvidia"


class TimeByNodes(Fact, frozen=True):
    """The longest time of jobs with at most so many nodes."""

    nodes: Count
    time: str


class Limits(Fact, frozen=True):
    """What one job may ask for; unset means no limit is known."""

    max_time: str | None = None
    "As Slurm writes it; UNLIMITED and INFINITE are no limit."
    max_time_by_nodes: tuple[TimeByNodes, ...] = ()
    "Shorter limits of smaller jobs, in increasing order of nodes."
    max_nodes: Limit | None = None
    max_gpus: Limit | None = None
    min_nodes: Limit | None = None
    min_gpus: Limit | None = None
    min_time: str | None = None
    max_jobs: Limit | None = None
    "Jobs of one user, running or pending."

    def time_for(self, nodes: int) -> str | None:
        """The longest time of a job with that many nodes, as Slurm writes it."""
        return next((limit.time for limit in self.max_time_by_nodes if nodes <= limit.nodes), self.max_time)

    def seconds_for(self, nodes: int) -> int | None:
        """The longest time of a job with that many nodes in seconds; None if there is no limit."""
        return durations.limit(self.time_for(nodes))


class Partition(Limits, frozen=True):
    """A Slurm partition; `node` overrides the site's node."""

    default: bool = False
    "A job that names no partition takes the first default whose limits allow it."
    whole_nodes: bool = False
    "Every job gets whole nodes."
    gpu_type: Name | None = None
    "The type of all GPUs of the partition."
    node: Node | None = None


class Qos(Limits, frozen=True):
    """A quality of service with its limits."""

    default: bool = False
    "A job that names no QoS takes the first default whose limits allow it."
    replaces_partition_limits: bool = False
    "Its limits hold instead of those of the partition (Slurm's OverPartQOS)."


class Account(Fact, frozen=True):
    """Whether a job must name the account it is charged to."""

    required: bool = False
    hint: str | None = None
    "How users find theirs; shown when it is missing."


class Cpu(Fact, frozen=True):
    """CPUs that belong to a GPU."""

    per_gpu: Count | None = None
    exact: bool = False
    "Jobs must request `per_gpu` CPUs for each GPU, neither more nor fewer."
    multiple_of: Count = 1


class Memory(Fact, frozen=True):
    """How memory is asked for, and how much belongs to a GPU."""

    form: MemoryForm = "mem"
    per_gpu: str | None = None


class Modules(Fact, frozen=True):
    """Environment modules."""

    init: tuple[str, ...] = ()
    "Whole commands that run before the modules are loaded; in every job where `load` is empty."
    load: tuple[str, ...] = ()
    "Module names."


class Env(Fact, frozen=True):
    """Environment variables by when they apply. A `$NAME` in a value is expanded in the job."""

    always: Environment = {}
    multi_gpu: Environment = {}
    multi_node: Environment = {}
    container: Environment = {}
    "Set inside the container only, over what its image sets."
    task: Environment = {}
    "Exported by each task of the job step, so that $SLURM_LOCALID and the like are its own."
    notes: dict[str, str] = {}
    "Why a variable is there, by its name; becomes the comment above it."

    def key_of(self, name: str) -> str:
        """The key of a variable in the profile."""
        groups = ("container", "task", "multi_node", "multi_gpu", "always")
        return next((f"env.{group}.{name}" for group in groups if name in getattr(self, group)), "when")


class Launch(Fact, frozen=True):
    """How jobs start their ranks."""

    srun: tuple[str, ...] = ()
    "Options of srun, such as --mpi=none."
    torchrun: tuple[str, ...] = ()
    "The command that replaces torchrun, such as python -m torch.distributed.run."
    torchrun_options: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    "Shell lines that the batch script runs before the step."
    before_on_each_node: tuple[str, ...] = ()
    "Shell lines that run once on each node before the step."


class When(Fact, frozen=True):
    """Settings of the jobs that meet all its conditions; unset conditions do not count."""

    nodes: Literal["one", "several"] | None = None
    tasks: Literal["per-gpu", "per-node"] | None = None
    whole_nodes: bool | None = None
    "Whether the job uses every GPU of its nodes."
    gpu_type: Name | None = None
    partition: Name | None = None
    account_suffix: str = ""
    "Appended to the account, such as Jean Zay's @h100."
    sbatch: SbatchOptions = {}
    modules: Modules = Modules()
    env: Environment = {}
    task_env: Environment = {}
    launch: Launch = Launch()


class Container(Fact, frozen=True):
    """The container that a job's processes run in."""

    engine: EngineName = "apptainer"
    image: str | None = None
    options: tuple[str, ...] = ()
    "Further options of the engine, such as --nccl of podman-hpc."
    modules: tuple[str, ...] = ()
    "Modules that the container needs."
    binds: tuple[str, ...] = ()
    multi_node_binds: tuple[str, ...] = ()
    multi_node_modules: tuple[str, ...] = ()
    "Modules that bring the host libraries to be bound on several nodes."
    multi_node_library_path: tuple[Folder, ...] = ()
    "Folders put first in LD_LIBRARY_PATH inside the container on several nodes."


class Rendezvous(Fact, frozen=True):
    """The address at which the ranks of several nodes meet."""

    host: HostRule = "hostname"
    host_in_container: HostRule | None = None
    suffix: str = ""
    "Appended to the host name, such as JUWELS' `i` for its InfiniBand name."


class Source(Fact, frozen=True):
    """Where facts of a profile come from."""

    mark: Mark
    "The site's documentation, a configuration in production elsewhere, users' scripts, or a conclusion."
    title: str
    url: str | None = None
    date: str | None = None
    "Of its version, as YYYY-MM-DD."
    facts: tuple[str, ...] = ()
    "The keys of the profile that it supports, such as `gpu.request`; a table stands for all its keys."


class Charge(Fact, frozen=True):
    """What a job costs in the site's own unit."""

    unit: str = "GPU hours"
    per: Literal["gpu", "node"] = "gpu"
    rate: float = 1.0
    "Units for an hour of one GPU or node."
    rates: dict[Name, float] = {}
    "Other rates by partition or QoS."


class Login(Fact, frozen=True):
    """Where one logs in, and how."""

    host: str | None = None
    other_hosts: tuple[str, ...] = ()
    jump_host: str | None = None
    automation_host: str | None = None
    "The host for unattended logins with a restricted key."
    methods: tuple[LoginMethod, ...] = ()
    certificate_hours: Count | None = None
    certificate_command: str | None = None
    "The command that gets a certificate, such as `clifton auth`."
    note: str | None = None


class Site(Fact, frozen=True):
    """One cluster. See docs/sites.md for how to write a profile."""

    name: Name
    title: str = ""
    extends: Name | None = None
    python_env: str | None = None
    "Where Python comes from: none, uv, uv:FOLDER, venv:FOLDER or conda:NAME."
    time: str | None = None
    "The time limit of a job that asks for none."
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
    launch: Launch = Launch()
    when: dict[str, When] = {}
    "Settings of some jobs only, by a name of your choice; later tables override earlier ones."
    qos_required: bool = False
    limits: Limits = Limits()
    "Of every job, whatever its partition."
    internet: Literal["yes", "no", "proxy"] | None = None
    "Whether compute nodes reach the internet."
    architecture: Literal["x86_64", "aarch64"] | None = None
    "Of the GPU nodes."
    charge: Charge | None = None
    refusals: dict[str, str] = {}
    "What to do about a refusal of the site, by a part of its text."
    sources: dict[Name, Source] = {}
    sbatch: SbatchOptions = {}
    "Further directives of every job, by long option name; `true` for one without a value."

    def type_of(self, partitions: Sequence[str]) -> str | None:
        """The GPU type that all these partitions have."""
        types = {self.partitions[name].gpu_type if name in self.partitions else None for name in partitions}
        return types.pop() if len(types) == 1 else None

    def source_of(self, key: str) -> Source | None:
        """The source of a fact, by its key: the source that names the longest part of it."""
        named = [
            (len(fact), source)
            for source in self.sources.values()
            for fact in source.facts
            if key == fact or key.startswith(f"{fact}.")
        ]
        return max(named, key=lambda pair: pair[0], default=(0, None))[1]

    @property
    def default_partitions(self) -> tuple[str, ...]:
        """The partitions of jobs that name none, in order of preference."""
        return tuple(name for name, partition in self.partitions.items() if partition.default)

    @property
    def default_partition(self) -> str | None:
        """The preferred partition of jobs that name none."""
        return next(iter(self.default_partitions), None)

    @property
    def default_qos(self) -> tuple[str, ...]:
        """The QoS of jobs that name none, in order of preference."""
        return tuple(name for name, qos in self.qos.items() if qos.default)
