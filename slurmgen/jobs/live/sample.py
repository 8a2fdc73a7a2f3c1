"""A sample of a running job: its GPUs by a step beside its own, CPU and memory from sstat."""

from collections.abc import Mapping

from msgspec import Struct

from slurmgen.errors import CommandFailed
from slurmgen.jobs.job import Job
from slurmgen.jobs.live.allocation import Allocation, running, step_on_each_node
from slurmgen.jobs.live.gpus import PROBE, Gpu, parse
from slurmgen.jobs.live.verdict import idle_since, verdict
from slurmgen.jobs.slurm_client import NotInstalled, call
from slurmgen.remote.transport import Transport
from slurmgen.slurm import replies
from slurmgen.slurm.usage import mebibytes, pairs, whole_seconds

PROBE_TIMEOUT = 30.0
"Seconds; a step waits if the node is busy."


class Sample(Struct, frozen=True, kw_only=True):
    """A running job at one moment."""

    id: str
    "The id of the job."
    name: str
    site: str
    state: str
    "Slurm's state."
    nodes: str
    "Its nodes, in Slurm's notation."
    elapsed: int | None
    "Seconds that it has run."
    time_limit: int | None
    "Seconds."
    cpus: int
    cpu_percent: int | None
    "Of all its CPUs, on average since its start; null if Slurm does not sample it."
    memory_used: int | None
    "MiB of all tasks of the largest step; null if Slurm does not sample it."
    gpus: list[Gpu]
    verdict: list[str]
    "What stands out, in sentences."
    stand_in: bool
    "Whether a twin's stand-in reported the GPUs, which has none."
    problem: str
    "Why the GPUs are not known, else empty."


class Sampler:
    """Samples of one job, which remember since when its GPUs are idle."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._since: Mapping[tuple[str, int], float] = {}

    def sample(self, transport: Transport, now: float) -> Sample:
        """A sample; `now` is a time in seconds.

        Raises:
            RequestError: the job does not run.
            CommandFailed: Slurm did not reply.
        """
        allocation = running(transport, self._job.id)
        argv = step_on_each_node(allocation, ["sh", "-c", PROBE])
        completed = call(transport, argv, timeout=PROBE_TIMEOUT)
        found = parse(completed.out)
        self._since = idle_since(self._since, found.gpus, now)
        cpu_percent, memory = _used(transport, allocation)
        return Sample(
            id=self._job.id.number,
            name=self._job.record.name if self._job.record else "",
            site=self._job.route.site,
            state=allocation.state,
            nodes=allocation.nodes,
            elapsed=allocation.elapsed,
            time_limit=allocation.time_limit,
            cpus=allocation.cpus,
            cpu_percent=cpu_percent,
            memory_used=memory,
            gpus=list(found.gpus),
            verdict=verdict(found.gpus, self._since, now),
            stand_in=found.stand_in,
            problem=_problem(completed.returncode, completed.err, found.without),
        )


def _problem(status: int, stderr: str, without: tuple[str, ...]) -> str:
    if status:
        return f"srun: {replies.complaint(stderr, 'srun')}"
    return f"neither nvidia-smi nor rocm-smi is on {', '.join(without[:3])}" if without else ""


def _used(transport: Transport, allocation: Allocation) -> tuple[int | None, int | None]:
    """Percent of the CPUs since the start, and MiB; None where Slurm has no sample."""
    cluster = [f"--clusters={allocation.cluster}"] if allocation.cluster else []
    words = ["--allsteps", "--noheader", "--parsable2", "--format=JobID,TRESUsageInTot"]
    try:
        text = call(transport, ["sstat", *cluster, f"--jobs={allocation.number}", *words]).out
    except (NotInstalled, CommandFailed):
        return None, None
    rows = [line.partition("|") for line in text.splitlines() if line.startswith(f"{allocation.number}.")]
    tres = [pairs(row[2]) for row in rows]
    seconds = [found for one in tres if (found := whole_seconds(one.get("cpu", ""))) is not None]
    memory = [found for one in tres if (found := mebibytes(one.get("mem", ""))) is not None]
    available = (allocation.elapsed or 0) * allocation.cpus
    percent = round(100 * sum(seconds) / available) if seconds and available else None
    return percent, max(memory, default=None)
