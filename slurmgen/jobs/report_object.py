"""The object that `status`, `wait` and `cancel` print for a job with --json."""

from msgspec import Struct

from slurmgen.jobs.efficiency import Enough
from slurmgen.jobs.failure import Why
from slurmgen.jobs.final_states import LastKnown
from slurmgen.jobs.requeued import Requeued
from slurmgen.slurm.usage import Usage


class TaskObject(Struct, frozen=True, kw_only=True):
    """One task of an array."""

    id: str
    "The id of the array and the number of the task, as 12_3."
    state: str
    "Slurm's state."
    exit_code: int | None
    "Null while it runs, and if a signal ended it."
    other_exit_code: int | None
    "The exit code that it may have instead, else null."
    signal: int | None
    "The number of the signal that ended it, else null."
    reason: str
    "Slurm's reason why it is pending."
    elapsed: int | None
    "Seconds that it has run."
    nodes: str
    "Its nodes, in Slurm's notation."
    parameters: list[dict[str, str]]
    "Of a sweep: the parameters of each run of the task; else empty."


class Winner(Struct, frozen=True, kw_only=True):
    """The job that won a race of --first: the one that ran the program."""

    id: str
    site: str


class JobObject(Struct, frozen=True, kw_only=True):
    """One job, and all that is known of it."""

    id: str
    "Empty for an unsettled submission."
    name: str
    site: str
    via: str
    "How the site is reached: `ssh`, `local` or `twin`."
    cluster: str
    "The cluster, if the site has several; else empty."
    state: str
    "Slurm's state; `GONE` if Slurm no longer knows the job, `UNKNOWN` if the query failed."
    ended: bool
    "Whether the state is final."
    exit_code: int | None
    "The exit code of the batch script; null while it runs, and if a signal ended it."
    other_exit_code: int | None
    "The exit code that it may have instead: accounting shows one of 128 and more 128 too small. Else null."
    signal: int | None
    "The number of the signal that ended it, else null."
    reason: str
    "Slurm's reason why it is pending, as a code."
    waits: str
    "The same in words."
    why: Why | None
    "Why it failed."
    bad_nodes: dict[str, str]
    "What its preflight found, by the name of the node."
    excludes: str
    "The nodes that it excludes while it is pending, in Slurm's notation."
    requeued: Requeued | None
    "Its last unfinished run."
    start: str
    "Actual or expected start, in the local time of the site."
    elapsed: int | None
    "Seconds that it has run."
    time_limit: int | None
    "Seconds."
    nodes: str
    "Its nodes, in Slurm's notation."
    usage: Usage | None
    "What it used; null until it has ended."
    enough: Enough | None
    "The smaller request that would have sufficed, with a margin; null if there is none, or it is not known."
    tasks: list[TaskObject]
    "The tasks of an array; empty for other jobs."
    submitted: str
    "Time of the submission, as ISO 8601 in UTC."
    folder: str
    "The run folder on the cluster."
    log: str
    "Path of the log on the cluster; empty if each task has one."
    commit: str
    "Git commit of the project."
    dirty: bool
    "Whether the project had uncommitted changes."
    key: str
    "Idempotency key of the submission."
    command: str
    "The command that submitted it."
    directory: str
    "The working directory of that command."
    lost_to: Winner | None
    "The job that was chosen instead of this one, which does not run the program; null for other jobs."
    error: str
    "Why the state is unknown, else empty."
    remembered: str
    "Why the state is from the ledger and not from Slurm, else empty."
    last_known: LastKnown | None
    "The state at an earlier query, if the state is unknown because the site was not reached; else null."
