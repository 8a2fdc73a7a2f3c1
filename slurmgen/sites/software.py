"""What jobs run with: modules, variables, containers, and the launch of their ranks."""

from typing import Annotated, Literal

from msgspec import Meta

from slurmgen.sites.facts import Environment, Fact, Folder, Name, PartitionName
from slurmgen.slurm.sbatch_options import SbatchOptions

HostRule = Literal["hostname", "ip"]
EngineName = Literal[
    "apptainer", "singularity", "pyxis", "edf", "podman", "podman-hpc", "shifter", "charliecloud"
]


Suffix = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9_.@+-]*\Z", description="letters, digits and _ . @ + -"),
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
