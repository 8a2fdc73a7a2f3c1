"""The allocation of a running job, and the steps that slurmgen starts in it beside those of the job."""

import re
import time
from collections.abc import Sequence

from msgspec import Struct

from slurmgen.errors import CommandFailed, RequestError
from slurmgen.jobs.slurm_client import BETWEEN_REPLIES, REPLIES_UNTIL_GONE, call, call_again
from slurmgen.remote.transport import Transport
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.node_step import EXPORT_ALL
from slurmgen.slurm.replies import JobState, is_of
from slurmgen.slurm.usage import whole_seconds

_FIELDS = ("%A", "%T", "%M", "%l", "%D", "%C", "%N", "%V", "%Z", "%k", "%j")
_ROW = re.compile(
    r"(?P<number>[0-9]{1,18})\|(?P<state>[A-Z_]{1,32})\|(?P<elapsed>[\w:-]{1,32})\|(?P<limit>[\w:-]{1,32})"
    r"\|(?P<node_count>[0-9]{1,9})\|(?P<cpus>[0-9]{1,9})\|(?P<nodes>[\w.,\[\]-]{0,4096})"
    r"\|(?P<submitted>[^|]*)\|(?P<folder>[^|]*)\|(?P<comment>.*)\|(?P<name>[^|]*)",
    re.ASCII,
)
_NODE = re.compile(r"[A-Za-z0-9][\w.-]{0,252}", re.ASCII)


class Allocation(Struct, frozen=True, kw_only=True):
    """What a job has been allocated."""

    number: str
    "The id of the job for steps; of a task of an array, another one than ID_TASK."
    cluster: str
    state: str
    elapsed: int | None
    "Seconds."
    time_limit: int | None
    "Seconds."
    node_count: int
    cpus: int
    nodes: str
    "In Slurm's notation."


def running(transport: Transport, job: JobId) -> Allocation:
    """The allocation of a job that runs.

    Raises:
        RequestError: it does not run, or is a whole array.
        CommandFailed: Slurm did not reply.
    """
    found = allocations(transport, job)
    for _ in range(REPLIES_UNTIL_GONE - 1):
        if not found:  # a controller that restarts may list nothing
            time.sleep(BETWEEN_REPLIES)
            found = allocations(transport, job)
    active = [one for one in found if one.state == "RUNNING"]
    if len(active) > 1:
        raise RequestError(f"job {job} has {len(active)} running tasks", f"Name one task, such as {job}_0.")
    if not active:
        state = found[0].state if found else "not in the queue"
        raise RequestError(f"job {job} is {state}, not RUNNING", f"`slurmgen status {job}` shows why.")
    return active[0]


def allocations(transport: Transport, job: JobId) -> list[Allocation]:
    """The allocation of a job, or of each task of an array; empty if Slurm does not list it.

    Raises:
        CommandFailed: Slurm did not reply.
    """
    cluster = [f"--clusters={job.cluster}"] if job.cluster else []
    words = [
        f"--jobs={job.number}",
        "--all",
        "--states=all",
        "--array",
        "--noheader",
        f"--format={'|'.join(_FIELDS)}",
    ]
    argv = ["squeue", *cluster, *words]
    completed = call_again(transport, argv)
    rows = (_ROW.fullmatch(line.strip()) for line in completed.out.splitlines())
    return [_allocation(row, job.cluster) for row in rows if row and is_of(_state(row), job)]


def _state(row: re.Match[str]) -> JobState:
    return JobState(
        id=row["number"],
        state=row["state"],
        submitted=row["submitted"],
        folder=row["folder"],
        comment=row["comment"],
        name=row["name"],
    )


def _allocation(row: re.Match[str], cluster: str) -> Allocation:
    return Allocation(
        number=row["number"],
        cluster=cluster,
        state=row["state"],
        elapsed=whole_seconds(row["elapsed"]),
        time_limit=whole_seconds(row["limit"]),
        node_count=int(row["node_count"]),
        cpus=int(row["cpus"]),
        nodes=row["nodes"],
    )


def step(
    allocation: Allocation, command: Sequence[str], *, options: Sequence[str] = (), node: str | None = None
) -> list[str]:
    """The srun of a step that shares the resources of the job's own steps: one task, on one node.

    Args:
        allocation: of a running job.
        command: what the task runs.
        options: further options of srun.
        node: the node; default: one that Slurm chooses.
    """
    place = [f"--nodelist={node}"] if node else []
    return _srun(allocation, 1, [*place, *options], command)


def step_on_each_node(allocation: Allocation, command: Sequence[str]) -> list[str]:
    """The srun of such a step with one task on each node of the job."""
    return _srun(allocation, allocation.node_count, [], command)


def _srun(allocation: Allocation, nodes: int, options: Sequence[str], command: Sequence[str]) -> list[str]:
    cluster = [f"--clusters={allocation.cluster}"] if allocation.cluster else []
    size = [f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
    place = [*cluster, f"--jobid={allocation.number}", "--overlap", *size, EXPORT_ALL]
    return ["srun", *place, *options, *command]


def node_names(transport: Transport, allocation: Allocation) -> list[str]:
    """The names of the nodes of a job, in Slurm's order.

    Raises:
        CommandFailed: Slurm did not reply.
    """
    argv = ["scontrol", "show", "hostnames", allocation.nodes]
    completed = call(transport, argv)
    names = [line.strip() for line in completed.out.splitlines() if _NODE.fullmatch(line.strip())]
    if completed.returncode or not names:
        raise CommandFailed(f"the nodes of job {allocation.number} are not known", "Try again.")
    # A login shell may print words before them.
    return names[-allocation.node_count :]


def node_of(transport: Transport, allocation: Allocation, name: str | None) -> str:
    """A node of a job: the one that the user names, else the first.

    Raises:
        RequestError: the job does not run on that node.
        CommandFailed: Slurm did not reply.
    """
    names = node_names(transport, allocation)
    if name is not None and name not in names:
        raise RequestError(
            f"job {allocation.number} does not run on {name}", f"It runs on {allocation.nodes}."
        )
    return name or names[0]
