"""The limits of jobs, of partitions and of QoS."""

from slurmgen.sites.facts import Count, Fact, Limit, Name, PartitionName
from slurmgen.sites.hardware import Node
from slurmgen.slurm import durations


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
        return durations.limit(self.time_for(nodes))

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
