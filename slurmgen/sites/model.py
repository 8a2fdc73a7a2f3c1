"""Site: the facts about one cluster that a batch script depends on.

A site is data. It is written as TOML in `site_profiles/`, and every field that
is unset is unknown: the planner then asks the user, or reports which default it used.
"""

from collections.abc import Sequence
from typing import Literal

from slurmgen.sites.access import Account, Charge, Login, LoginMethod, Mark, Source
from slurmgen.sites.facts import Count, Environment, Fact, Folder, JobFolder, Name, PartitionName
from slurmgen.sites.hardware import Cpu, Gpu, GpuRequest, GpuType, Memory, MemoryForm, Node, Vendor
from slurmgen.sites.limits import Limits, Partition, Qos, TimeByNodes
from slurmgen.sites.software import (
    Container,
    EngineName,
    Env,
    HostRule,
    Launch,
    LaunchOptions,
    Modules,
    OtherEngine,
    Preflight,
    Rendezvous,
    When,
)
from slurmgen.slurm.sbatch_options import SbatchOptions

__all__ = [
    "Account",
    "Charge",
    "Container",
    "Count",
    "Cpu",
    "EngineName",
    "Env",
    "Environment",
    "Fact",
    "Gpu",
    "GpuRequest",
    "GpuType",
    "HostRule",
    "JobFolder",
    "Launch",
    "LaunchOptions",
    "Limits",
    "Login",
    "LoginMethod",
    "Mark",
    "Memory",
    "MemoryForm",
    "Modules",
    "Name",
    "Node",
    "OtherEngine",
    "Partition",
    "Preflight",
    "Qos",
    "Rendezvous",
    "Site",
    "Source",
    "TimeByNodes",
    "Vendor",
    "When",
]


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
    partitions: dict[PartitionName, Partition] = {}
    "The partitions by name; a job may name only these, if any are listed."
    qos: dict[Name, Qos] = {}
    "The QoS by name; a job may name only these, if any are listed."
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
