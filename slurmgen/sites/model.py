"""A site profile: what a cluster is like. All sizes, times and names are those of Slurm."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct, to_builtins

from slurmgen.slurm import units
from slurmgen.slurm.sbatch_options import SbatchOptions
from slurmgen.slurm.shell import VariableName

MOST = 1_000_000
"A larger number is a typing error, whatever it counts."

Count = Annotated[int, Meta(ge=1, le=MOST)]
Limit = Annotated[int, Meta(ge=0, le=MOST)]


def _like(pattern: str, description: str) -> Meta:
    return Meta(pattern=rf"^{pattern}\Z", description=description)


Name = Annotated[
    str,
    _like(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", "letters, digits and _ . + -, beginning with none of . + -"),
]
PartitionName = Annotated[
    str,
    _like(r"[A-Za-z0-9_][A-Za-z0-9_.+:-]*", "letters, digits and _ . + : -, beginning with none of . + : -"),
]
Folder = Annotated[str, _like(r"/[A-Za-z0-9_./+-]*", "a full path of letters, digits and _ . / + -")]
_IN_JOB = "a full path of letters, digits and _ . / + -, in which a $NAME expands in the job"
JobFolder = Annotated[str, _like(r"(/|\$[A-Za-z_])[A-Za-z0-9_./+$-]*", _IN_JOB)]
Host = Annotated[str, _like(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", "the name of a host, without user and port")]
JumpHost = Annotated[
    str,
    _like(r"([A-Za-z0-9_][A-Za-z0-9_.+-]*@)?[A-Za-z0-9_][A-Za-z0-9_.-]*(:[0-9]{1,5})?", "[USER@]HOST[:PORT]"),
]
Address = Annotated[str, _like(r"https?://[^\s/]+(/\S*)?", "an address that begins with https:// or http://")]
_DATE = r"[0-9]{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12][0-9]|3[01]))?)?"
Date = Annotated[str, _like(_DATE, "a date as YYYY-MM-DD, YYYY-MM or YYYY")]
Suffix = Annotated[str, _like(r"[A-Za-z0-9_.@+-]*", "letters, digits and _ . @ + -")]
Environment = dict[VariableName, str]


class Fact(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of every part of a profile: frozen, and closed to unknown keys."""


LoginMethod = Literal["password", "key", "otp", "certificate"]
Mark = Literal["documentation", "configuration", "users", "inferred", "discovered"]
KNOWN_BY: dict[Mark, str] = {
    "documentation": "documented",
    "configuration": "from a configuration in production",
    "users": "from users' scripts",
    "inferred": "inferred",
    "discovered": "seen on the machine",
}
"How a fact is known, by the mark of its source."

Rate = Annotated[float, Meta(ge=0, le=MOST)]


class Account(Fact, frozen=True):
    """Whether a job must name the account it is charged to."""

    required: bool = False
    "Whether a job must name an account."
    hint: str | None = None
    "How users find their account; printed when it is missing."


class Login(Fact, frozen=True):
    """The login nodes and the methods of authentication."""

    host: Host | None = None
    "The login host."
    other_hosts: tuple[Host, ...] = ()
    "Further login hosts."
    jump_host: JumpHost | None = None
    "The host that connections go through, unless ssh_config has ProxyJump or ProxyCommand for the host."
    automation_host: Host | None = None
    "The host for unattended logins with a restricted key."
    transfer_hosts: tuple[Host, ...] = ()
    "Hosts for copying large files; for readers."
    methods: tuple[LoginMethod, ...] = ()
    "What a login needs."
    certificate_hours: Count | None = None
    "The lifetime of an SSH certificate."
    certificate_command: str | None = None
    "The command that gets a certificate, such as `clifton auth`."
    note: str | None = None
    "What else users must know."


class Charge(Fact, frozen=True):
    """What a job costs in the site's own unit."""

    unit: str = "GPU hours"
    "The unit of the site."
    per: Literal["gpu", "node"] = "gpu"
    "What is charged."
    rate: Rate = 1.0
    "Units for an hour of one GPU or node."
    rates: dict[PartitionName, Rate] = {}
    "Other rates by QoS, partition or GPU type, of which the first that has one counts."


class Source(Fact, frozen=True):
    """Where facts of a profile come from."""

    mark: Mark
    "The site's documentation, a configuration in production elsewhere, users' scripts, or a conclusion."
    title: str
    "The title of the page, repository or notes."
    url: Address | None = None
    "Its address."
    date: Date | None = None
    "The date of its version: YYYY-MM-DD, or YYYY-MM or YYYY if no more is known."
    facts: tuple[str, ...] = ()
    "The keys that it supports, such as `gpu.request`, or tables; if unset, all that no other source names."

    def __str__(self) -> str:
        return ", ".join(filter(None, [f"{self.mark}: {self.title}", self.date, self.url]))


GpuRequest = Literal["gres", "gpus-per-node", "gpus", "none"]
Vendor = Literal["nvidia", "amd"]
MemoryForm = Literal["mem", "mem-per-gpu", "mem-per-cpu", "optional", "none"]


class Node(Fact, frozen=True):
    """A node, as Slurm counts it."""

    gpus: Count | None = None
    "GPUs of the node."
    cpus: Count | None = None
    "CPUs that jobs can allocate, as Slurm counts them (cores, or threads)."
    memory: str | None = None
    "The memory that jobs can allocate, such as 808G."
    cpus_per_gpu: Count | None = None
    "CPUs for each GPU, where they differ from `[cpu] per_gpu`."
    memory_per_gpu: str | None = None
    "Memory for each GPU, where it differs from `[memory] per_gpu`."


class GpuType(Node, frozen=True):
    """A GPU type by its Slurm name, and how its nodes differ from the usual one (see sites/nodes.py)."""

    label: str | None = None
    "The name of the GPU for readers."
    constraint: str | None = None
    "The --constraint that selects the type, on sites whose GPU requests name no type."
    sbatch: SbatchOptions = {}
    "Other directives that select the type in the same way, such as a reservation."
    vendor: Vendor | None = None
    "The vendor, where it differs from `[gpu] vendor`."


class Gpu(Fact, frozen=True):
    """How jobs request GPUs."""

    request: GpuRequest = "gres"
    "How jobs request GPUs; `none` where the site refuses a request, since partitions bring the GPUs."
    type_required: bool = False
    "Whether a job must name a type; the only type is then used unnamed."
    default_type: Name | None = None
    "The type of a job that names none."
    types: dict[Name, GpuType] = {}
    "The GPU types by their Slurm names, and how their nodes differ from `[node]`."
    vendor: Vendor = "nvidia"
    "Selects the GPU option of the container engine."

    def vendor_of(self, gpu_type: str | None) -> Vendor:
        """The vendor of a GPU type."""
        kind = self.types.get(gpu_type or "")
        return (kind.vendor if kind else None) or self.vendor


class Cpu(Fact, frozen=True):
    """CPUs that belong to a GPU."""

    per_gpu: Count | None = None
    "CPUs for each GPU; default: the share of a node."
    exact: bool = False
    "Whether a job must request exactly `per_gpu` CPUs for each GPU."
    multiple_of: Count = 1
    "Slurm allocates CPUs of a task in multiples of this."


class Memory(Fact, frozen=True):
    """How jobs request memory, and how much for each GPU."""

    form: MemoryForm = "mem"
    "The option for memory; `optional` if jobs need none, `none` if the site refuses it."
    per_gpu: str | None = None
    "Memory for each GPU, such as 110G; default: the share of a node."


class TimeByNodes(Fact, frozen=True):
    """The longest time of jobs with at most so many nodes."""

    nodes: Count
    "The largest number of nodes with this limit."
    time: str
    "The time limit, as Slurm writes it."


class Limits(Fact, frozen=True):
    """What one job may request; unset means that no limit is known."""

    max_time: str | None = None
    "The longest time limit, as Slurm writes it; UNLIMITED for none."
    max_time_by_nodes: tuple[TimeByNodes, ...] = ()
    "Limits of smaller jobs instead of `max_time`, in increasing order of nodes."
    max_nodes: Count | None = None
    "Nodes of a job."
    max_gpus: Limit | None = None
    "GPUs of a job; 0 for a partition without GPUs."
    max_cpus: Count | None = None
    "CPUs of a job, on all its nodes together."
    max_memory: str | None = None
    "Memory of a job on all its nodes together, such as 48G."
    min_nodes: Limit | None = None
    "The fewest nodes of a job."
    min_gpus: Limit | None = None
    "The fewest GPUs of a job."
    min_time: str | None = None
    "The shortest time limit."
    max_jobs: Count | None = None
    "Jobs of one user, running or pending; for readers."
    max_running_jobs: Count | None = None
    "Running jobs of one user; for readers."
    max_nodes_per_user: Count | None = None
    "Nodes of all jobs of one user; for readers."

    def time_for(self, nodes: int) -> str | None:
        """The longest time of a job with that many nodes, as Slurm writes it."""
        return next((limit.time for limit in self.max_time_by_nodes if nodes <= limit.nodes), self.max_time)

    def seconds_for(self, nodes: int) -> int | None:
        """The longest time of a job with that many nodes in seconds; None if there is no limit."""
        return units.time_limit(self.time_for(nodes))

    @property
    def has_gpus(self) -> bool:
        """Whether a job may have GPUs, as far as the profile says."""
        return self.max_gpus != 0


class Partition(Limits, frozen=True):
    """A Slurm partition; `node` overrides the site's node."""

    default: bool = False
    "A job that names no partition takes the first default whose limits allow it."
    default_without_gpus: bool | None = None
    "The same for jobs without GPUs; unset: whether `max_gpus` is 0."
    preemptible: bool = False
    "Whether Slurm may stop its jobs in favor of others."
    whole_nodes: bool = False
    "Whether each job gets whole nodes."
    gpu_type: Name | None = None
    "The type of all GPUs of the partition."
    node: Node | None = None
    "Its nodes, where they differ from `[node]`, or from `[cpu_node]` if `max_gpus` is 0."

    @property
    def is_default_without_gpus(self) -> bool:
        """Whether jobs without GPUs that name no partition may take it."""
        return not self.has_gpus if self.default_without_gpus is None else self.default_without_gpus


class Qos(Limits, frozen=True):
    """A quality of service with its limits."""

    default: bool = False
    "A job that names no QoS takes the first default whose limits allow it."
    preemptible: bool = False
    "Whether Slurm may stop its jobs in favor of others."
    partitions: tuple[PartitionName, ...] = ()
    "The partitions that accept it; unset: all."
    replaces_partition_limits: bool = False
    "Its limits hold instead of those of the partition (Slurm's OverPartQOS)."


HostRule = Literal["hostname", "ip"]
EngineName = Literal[
    "apptainer", "singularity", "pyxis", "edf", "podman", "podman-hpc", "shifter", "charliecloud"
]


class Modules(Fact, frozen=True):
    """Environment modules."""

    init: tuple[str, ...] = ()
    "Commands that run before the modules are loaded; in every job where `load` is empty."
    load: tuple[str, ...] = ()
    "Module names."


class Env(Fact, frozen=True):
    """Environment variables by the jobs that need them. A `$NAME` in a value expands in the job."""

    always: Environment = {}
    "Of every job."
    multi_gpu: Environment = {}
    "Of jobs with several GPUs."
    multi_node: Environment = {}
    "Of jobs with GPUs on several nodes."
    container: Environment = {}
    "Inside the container only, over values of the image."
    task: Environment = {}
    "Exported by each task of the step, so that $SLURM_LOCALID and the like are its own."
    notes: dict[str, str] = {}
    "The reason for a variable, by its name: the comment above it in the script."
    required: tuple[str, ...] = ()
    "Variables that the site's documentation requires; `lint` reports a script without one as an error."

    @property
    def groups(self) -> dict[str, Environment]:
        """The variables by the jobs that have them."""
        return {
            name: getattr(self, name) for name in ("always", "multi_gpu", "multi_node", "container", "task")
        }

    def key_of(self, name: str) -> str:
        """The key of a variable in the profile."""
        groups = ("container", "task", "multi_node", "multi_gpu", "always")
        return next((f"env.{group}.{name}" for group in groups if name in getattr(self, group)), "when")


class LaunchOptions(Fact, frozen=True):
    """How jobs start their ranks."""

    srun: tuple[str, ...] = ()
    "Options of srun, such as `--mpi=none`."
    torchrun: tuple[str, ...] = ()
    "The command that replaces `torchrun`, such as `python -m torch.distributed.run`."
    torchrun_options: tuple[str, ...] = ()
    "Further options of torchrun."
    mpi: Name | None = None
    "The type of MPI for `--framework mpi`, one of `srun --mpi=list`; unset: pmix."
    before: tuple[str, ...] = ()
    "Shell lines that the batch script runs before the step."
    before_on_each_node: tuple[str, ...] = ()
    "Shell lines that run once on each node before the step."


class Launch(LaunchOptions, frozen=True):
    """How all jobs of the site start their ranks."""

    ddp: Literal["torchrun", "srun"] = "torchrun"
    "How `--framework ddp` starts: one torchrun per node, or one task per GPU as `--framework srun` does."


CONDITIONS = (
    *("nodes", "tasks", "whole_nodes", "has_gpus", "several_gpus"),
    *("gpu_type", "partition", "qos", "container"),
)
"The fields of `When` that are conditions."


class When(Fact, frozen=True):
    """Settings of the jobs that meet all its conditions; unset conditions do not count."""

    nodes: Literal["one", "several"] | None = None
    "Condition: jobs on one node, or on several."
    tasks: Literal["per-gpu", "per-node"] | None = None
    "Condition: one task per GPU (lightning, srun), or one per node (ddp, accelerate)."
    whole_nodes: bool | None = None
    "Condition: whether the job uses every GPU of its nodes; not met if their number is unknown."
    has_gpus: bool | None = None
    "Condition: whether the job has GPUs."
    several_gpus: bool | None = None
    "Condition: whether the job uses several GPUs, or parts of a GPU."
    gpu_type: Name | None = None
    "Condition: the GPU type of the job."
    partition: PartitionName | None = None
    "Condition: the partition of the job."
    qos: Name | None = None
    "Condition: the QoS of the job."
    container: bool | None = None
    "Condition: whether the ranks run in a container."
    refuse: str | None = None
    "Why the site refuses such jobs; slurmgen then refuses them, with `note` as its advice."
    note: str | None = None
    "What users should know about such jobs; `slurmgen explain` prints it."
    account_suffix: Suffix = ""
    "Appended to the account, such as `@h100`."
    sbatch: SbatchOptions = {}
    "Further directives."
    modules: Modules = Modules()
    "Further modules, after those of the site."
    env: Environment = {}
    "Further variables."
    task_env: Environment = {}
    "Further variables that each task exports."
    launch: LaunchOptions = LaunchOptions()
    "Further settings of the launch."


class OtherEngine(Fact, frozen=True):
    """A further container engine of a site, for jobs that choose it."""

    image: str | None = None
    "The image of jobs that name none."
    options: tuple[str, ...] = ()
    "Further options of the engine."
    gpu_options: tuple[str, ...] = ()
    "Those of jobs with GPUs only."
    modules: tuple[str, ...] = ()
    "Modules that the engine needs."


class Container(Fact, frozen=True):
    """The container that the ranks run in."""

    engine: EngineName = "apptainer"
    "The container engine of the site."
    image: str | None = None
    "The image of jobs that name none; unset: such jobs use no container."
    image_dir: str = "~/.cache/slurmgen/images"
    "Folder for images from a registry, visible on all nodes. A `$NAME` in it expands in the job."
    options: tuple[str, ...] = ()
    "Further options of the engine."
    gpu_options: tuple[str, ...] = ()
    "Those of jobs with GPUs only, such as `--nccl` of podman-hpc."
    modules: tuple[str, ...] = ()
    "Modules that the container needs."
    engines: dict[EngineName, OtherEngine] = {}
    "Further engines, which a job chooses by `container_engine`; the keys below apply to them too."
    binds: tuple[str, ...] = ()
    "Folders to bind, as SOURCE[:TARGET]."
    multi_node_binds: tuple[str, ...] = ()
    "Further folders to bind in jobs with GPUs on several nodes."
    multi_node_modules: tuple[str, ...] = ()
    "Modules with the host libraries that these binds need."
    multi_node_library_path: tuple[Folder, ...] = ()
    "Folders put first in LD_LIBRARY_PATH inside the container in such jobs."


class Preflight(Fact, frozen=True):
    """The checks of nodes before the ranks start."""

    min_bandwidth: Annotated[float, Meta(gt=0)] | None = None
    "The least MB/s of one TCP connection between two nodes; unset: nodes are compared with each other only."


class Rendezvous(Fact, frozen=True):
    """The rendezvous address of the ranks of several nodes."""

    host: HostRule = "hostname"
    "The first node by its name or its IP address."
    host_in_container: HostRule | None = None
    "The same for jobs in a container."
    suffix: str = ""
    "Appended to the host name, such as JUWELS' `i` for its InfiniBand name."


CompleteList = Literal["partitions", "qos", "gpu.types"]


class Site(Fact, frozen=True):
    """One cluster. See docs/sites.md for how to write a profile."""

    name: Name
    "The name of the site and of its file."
    title: str = ""
    "The title for readers."
    extends: Name | None = None
    "The profile whose facts hold where this one states none; tables are merged, other values replaced."
    python_env: str | None = None
    "The Python environment: none, uv[:FOLDER], venv:FOLDER, conda:NAME or pixi[:FOLDER[:NAME]]."
    time: str | None = None
    "The time limit of a job that requests none."
    login: Login = Login()
    "Where to log in."
    account: Account = Account()
    "The account of a job."
    complete: tuple[CompleteList, ...] = ()
    "The lists that have every name; a job may name others of a list that is not here, which get a note."
    partitions: dict[PartitionName, Partition] = {}
    "The partitions by name."
    qos: dict[Name, Qos] = {}
    "The QoS by name."
    node: Node = Node()
    "The usual GPU node."
    cpu_node: Node = Node()
    "The usual node of jobs without GPUs, where it differs from `[node]`."
    gpu: Gpu = Gpu()
    "GPU requests and types."
    cpu: Cpu = Cpu()
    "CPUs."
    memory: Memory = Memory()
    "Memory."
    modules: Modules = Modules()
    "Modules of jobs without a container."
    env: Env = Env()
    "Variables."
    container: Container | None = None
    "Containers."
    rendezvous: Rendezvous = Rendezvous()
    "The address where ranks meet."
    preflight: Preflight = Preflight()
    "Checks of nodes before the ranks start."
    launch: Launch = Launch()
    "How ranks start."
    when: dict[str, When] = {}
    "Settings of some jobs only, by a name of your choice; later tables override earlier ones."
    qos_required: bool = False
    "Whether a job must name a QoS."
    limits: Limits = Limits()
    "The limits of every job, whatever its partition."
    internet: Literal["yes", "no", "proxy"] | None = None
    "Whether compute nodes reach the internet."
    max_array_size: Count | None = None
    "Slurm's MaxArraySize, which a task of a job array must be below; unset: its default, 1001."
    job_folders: tuple[Folder, ...] = ()
    "Folders that compute nodes reach, one of which a job must start below; unset: all of the login node."
    local_dir: JobFolder | None = None
    "The folder of a job on local storage of each node, for staged data; unset: $TMPDIR, else /tmp."
    architecture: Literal["x86_64", "aarch64"] | None = None
    "The architecture of the GPU nodes."
    charge: Charge | None = None
    "What jobs cost."
    refused_options: dict[str, str] = {}
    "The reason why the site refuses an sbatch option or advises against it, by the option's long name."
    notes: dict[str, str] = {}
    "Further facts for users, by topic; `slurmgen sites show` and the site's page print them."
    refusals: dict[str, str] = {}
    "What to do when the site refuses a job, by a part of the message."
    sources: dict[Name, Source] = {}
    "The sources of the facts."
    sbatch: SbatchOptions = {}
    "Further directives of every job, by long option name; `true` for one without a value."

    def type_of(self, partitions: Sequence[str]) -> str | None:
        """The GPU type that all these partitions have."""
        types = {self.partitions[name].gpu_type if name in self.partitions else None for name in partitions}
        return types.pop() if len(types) == 1 else None

    @property
    def stated(self) -> tuple[str, ...]:
        """The keys of all facts of the profile; a list counts as one, a default does not count."""
        facts = {key: value for key, value in to_builtins(self).items() if key not in UNSOURCED}
        return tuple(_leaves(facts, ""))

    def source_of(self, key: str) -> str | None:
        """The name of the source of a fact: the one that names the fact or its table most precisely.

        A source that names no facts supports those that no other source names.
        """
        longest, found = 0, next((name for name, source in self.sources.items() if not source.facts), None)
        for name, source in self.sources.items():
            for fact in source.facts:
                if len(fact) > longest and key.startswith(fact) and key[len(fact) :][:1] in ("", "."):
                    longest, found = len(fact), name
        return found

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


UNSOURCED = ("name", "title", "extends", "sources")
"The keys that are no facts about the cluster."


def _leaves(value: object, key: str) -> Iterator[str]:
    if not isinstance(value, dict) or not value:
        yield key
        return
    for name, inner in value.items():
        yield from _leaves(inner, f"{key}.{name}".lstrip("."))
