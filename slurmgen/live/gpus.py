"""The use of the GPUs of running jobs."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

from msgspec import DecodeError, Struct, json

from slurmgen.errors import CommandFailed, RemoteError
from slurmgen.live.session import Allocation, running, step_on_each_node
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Transport
from slurmgen.slurm import replies
from slurmgen.slurm.replies import mebibytes, pairs, whole_seconds
from slurmgen.status.job import Job
from slurmgen.status.query import query
from slurmgen.status.report import Report
from slurmgen.status.slurm import NotInstalled, call
from slurmgen.text import counted, listed, visible

MOST_LINES, LONGEST = 20_000, 20_000
"Lines that are read, and characters of one; rocm-smi prints one line for all GPUs of a node."
STAND_IN = "twin-nvidia-smi"
"A twin's stand-in for nvidia-smi. It has a name of its own, so that jobs do not take it for a GPU's program."
# Without a container of its own, nvidia-smi lists all GPUs of the node; SLURM_STEP_GPUS names the job's.
PROBE = f"""
node=${{SLURMD_NODENAME:-$(uname -n)}}
query=index,name,utilization.gpu,memory.used,memory.total,power.draw,power.limit
printf 'gpus|%s|%s\\n' "$node" "$SLURM_STEP_GPUS"
ask() {{ "$1" --query-gpu="$query" --format=csv,noheader,nounits | while IFS= read -r line; do
  printf '%s|%s|%s\\n' "$2" "$node" "$line"; done; }}
if command -v nvidia-smi >/dev/null 2>&1; then ask nvidia-smi nvidia
elif command -v rocm-smi >/dev/null 2>&1; then
  printf 'rocm|%s|' "$node"
  rocm-smi --showproductname --showuse --showmeminfo vram --showpower --json | tr -d '\\n'; echo
elif command -v {STAND_IN} >/dev/null 2>&1; then ask {STAND_IN} stand-in
else printf 'none|%s|\\n' "$node"
fi
"""


class Gpu(Struct, frozen=True, kw_only=True):
    """One GPU at one moment; None where its driver reports no value."""

    node: str
    index: int
    "As nvidia-smi or rocm-smi numbers it."
    name: str = ""
    utilization: int | None = None
    "Percent of the time in which a program ran on it, at the sample."
    memory_used: int | None = None
    "MiB."
    memory: int | None = None
    "MiB."
    power: int | None = None
    "Watts."
    power_limit: int | None = None
    "Watts."


def parse(text: str) -> tuple[list[Gpu], bool, list[str]]:
    """The GPUs by node and index in the output of `PROBE`, which the programs of a job may have influenced.

    Also whether a twin's stand-in reported them, which has no GPU; and the nodes that have neither nvidia-smi
    nor rocm-smi.
    """
    found: list[Gpu] = []
    own: dict[str, list[int]] = {}
    without, stand_in = [], False
    for line in text.splitlines()[:MOST_LINES]:
        kind, node, rest = (*line[:LONGEST].split("|", 2), "", "")[:3]
        node = visible(node)[:64]
        if kind == "gpus":
            own[node] = [int(number) for number in re.findall("[0-9]{1,4}", rest)]
        elif kind in ("nvidia", "stand-in"):
            stand_in |= kind == "stand-in"
            found += _nvidia(node, rest)
        elif kind == "rocm":
            found += _rocm(node, rest)
        elif kind == "none":
            without.append(node)
    gpus = sorted(_of_job(found, own), key=lambda gpu: (gpu.node, gpu.index))
    return gpus, stand_in, without


def _of_job(found: list[Gpu], own: Mapping[str, list[int]]) -> Iterator[Gpu]:
    """The GPUs that Slurm allocated, where a program listed all GPUs of the node."""
    for gpu in found:
        listed = {other.index for other in found if other.node == gpu.node}
        mine = set(own.get(gpu.node, ()))
        if not mine or not mine < listed or gpu.index in mine:
            yield gpu


def _nvidia(node: str, row: str) -> list[Gpu]:
    cells = [cell.strip() for cell in row.split(",")]
    if len(cells) != 7 or not re.fullmatch("[0-9]{1,4}", cells[0]):
        return []
    numbers = dict(zip(_ROCM, map(_number, cells[2:]), strict=True))
    return [Gpu(node=node, index=int(cells[0]), name=visible(cells[1])[:64], **numbers)]


# The values in the order of PROBE's query, each with its names in several versions of rocm-smi.
_ROCM = {
    "utilization": ("GPU use (%)",),
    "memory_used": ("VRAM Total Used Memory (B)",),
    "memory": ("VRAM Total Memory (B)",),
    "power": ("Average Graphics Package Power (W)", "Current Socket Graphics Package Power (W)"),
    "power_limit": ("Max Graphics Package Power (W)",),
}


def _rocm(node: str, text: str) -> list[Gpu]:
    try:
        cards = json.decode(text, type=dict[str, dict[str, Any]])
    except DecodeError:
        return []
    numbers = {card: match[1] for card in cards if (match := re.fullmatch("card([0-9]{1,4})", card))}
    return [_card(node, int(number), cards[card]) for card, number in numbers.items()]


def _card(node: str, index: int, values: Mapping[str, Any]) -> Gpu:
    read = {
        field: next((_number(str(values[name])) for name in names if name in values), None)
        for field, names in _ROCM.items()
    }
    for field in ("memory_used", "memory"):
        size = read[field]
        read[field] = None if size is None else size >> 20
    name = str(values.get("Card series") or values.get("Card Series") or "")
    return Gpu(node=node, index=index, name=visible(name)[:64], **read)


def _number(text: str) -> int | None:
    match = re.fullmatch(r"([0-9]{1,18})(\.[0-9]{1,9})?", text.strip())
    return int(match[1]) if match else None


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
        gpus, stand_in, without = parse(completed.out)
        self._since = idle_since(self._since, gpus, now)
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
            gpus=gpus,
            verdict=verdict(gpus, self._since, now),
            stand_in=stand_in,
            problem=_problem(completed.returncode, completed.err, without),
        )


def _problem(status: int, stderr: str, without: list[str]) -> str:
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


Connect = Callable[[Route, bool], Transport]
"Opens a connection; the second argument says whether the terminal may prompt."


class Sites:
    """The connections, one for each route; closed with the block."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._open: dict[Route, Transport] = {}
        self._tried: set[Route] = set()

    def transport(self, route: Route) -> Transport:
        """The connection to a site, opened if it is not. Only the first login may prompt.

        Raises:
            SlurmgenError: the site is not reached.
        """
        if route not in self._open:
            is_first = route not in self._tried
            self._tried.add(route)
            self._open[route] = self._connect(route, is_first)
        return self._open[route]

    def drop(self, route: Route) -> None:
        """Close a connection that broke."""
        if transport := self._open.pop(route, None):
            transport.close()

    def query(self, jobs: Sequence[Job]) -> list[Report]:
        """The reports of jobs, in their order; if a site is not reached, its reports say so."""
        return query(jobs, self._borrowed, lenient=True)

    @contextmanager
    def _borrowed(self, route: Route) -> Iterator[Transport]:
        try:
            yield self.transport(route)
        except RemoteError:
            self.drop(route)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for route in list(self._open):
            self.drop(route)


IDLE = 5
"Percent of utilisation below which a GPU is idle."
LONG = 60
"Seconds after which an idle GPU is worth a line: between two batches it may be idle for a moment."
Since = Mapping[tuple[str, int], float]
"Since when each idle GPU is idle, in seconds, by node and index."


def idle_since(before: Since, gpus: Sequence[Gpu], now: float) -> dict[tuple[str, int], float]:
    """Since when each GPU that is idle now is idle, as far as it was watched."""
    return {
        (gpu.node, gpu.index): before.get((gpu.node, gpu.index), now)
        for gpu in gpus
        if gpu.utilization is not None and gpu.utilization < IDLE
    }


def verdict(gpus: Sequence[Gpu], since: Since, now: float) -> list[str]:
    """What stands out, in sentences.

    >>> verdict([Gpu(node="n1", index=0, utilization=97), Gpu(node="n1", index=3, utilization=0)],
    ...         {("n1", 3): 0.0}, 600.0)
    ['GPU 3 on n1 idle for 10 min']
    """
    measured = [gpu for gpu in gpus if gpu.utilization is not None]
    if not measured:
        return []
    idle = [gpu for gpu in measured if (gpu.node, gpu.index) in since]
    if not idle:
        average = round(sum(gpu.utilization or 0 for gpu in measured) / len(measured))
        return [f"no idle GPU: on average {average} % of {counted(len(measured), 'GPU')}"]
    if len(idle) == len(measured) > 1:
        shortest = min(now - since[gpu.node, gpu.index] for gpu in idle)
        reason = ": the job may hang, or wait for data" if shortest >= LONG else ""
        return [f"all {len(idle)} GPUs idle {_time(shortest)}{reason}"]
    lines = [f"GPU {gpu.index} on {gpu.node} idle {_time(now - since[gpu.node, gpu.index])}" for gpu in idle]
    return lines if len(lines) <= _MOST else [f"{len(idle)} of {len(measured)} GPUs idle: {listed(lines)}"]


_MOST = 4


def _time(seconds: float) -> str:
    return "now" if seconds < LONG else f"for {seconds / 60:.0f} min"
