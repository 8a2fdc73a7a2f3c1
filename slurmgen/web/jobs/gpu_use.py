"""What a job uses: its GPUs now, as `slurmgen top` samples them, and its totals after the end."""

import time
from collections.abc import Iterator
from threading import Lock

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from slurmgen.jobs.job import Job
from slurmgen.jobs.live.sample import Sampler
from slurmgen.jobs.report import Report
from slurmgen.slurm import sizes
from slurmgen.text import counted
from slurmgen.web.jobs.asked import asked_job
from slurmgen.web.jobs.parts import part
from slurmgen.web.jobs.state import connections_of
from slurmgen.web.pages import page

_MOST_JOBS = 64
_samplers: dict[Job, Sampler] = {}
"They remember since when GPUs are idle, of the jobs that were looked at last."
_lock = Lock()


class Share(Struct, frozen=True):
    """How much of what a job was allocated it used."""

    label: str
    percent: int
    text: str


@part
def show(request: Request) -> Response:
    """A sample of a running job, which starts a short step in it."""
    job = asked_job(request)
    with connections_of(request).use(job.route) as transport:
        sample = _sampler(job).sample(transport, time.monotonic())
    return page(request, "job_gpus.html", sample=sample, size=sizes.canonical)


def _sampler(job: Job) -> Sampler:
    with _lock:
        _samplers[job] = _samplers.pop(job) if job in _samplers else Sampler(job)
        while len(_samplers) > _MOST_JOBS:
            del _samplers[next(iter(_samplers))]
        return _samplers[job]


def shares(report: Report) -> Iterator[Share]:
    """What a job used, once it has ended; nothing where its site has no accounting."""
    usage, elapsed, limit = report.usage, report.elapsed, report.time_limit
    if usage is None or not elapsed or report.is_array:
        return
    if usage.gpus and usage.gpu_percent is not None:
        yield Share("GPU", usage.gpu_percent, f"{usage.gpu_percent} % of {counted(usage.gpus, 'GPU')}")
    if usage.cpus and usage.cpu_seconds is not None:
        percent = round(100 * usage.cpu_seconds / (elapsed * usage.cpus))
        yield Share("CPU", percent, f"{percent} % of {counted(usage.cpus, 'CPU')}")
    if usage.memory and usage.memory_used:
        text = f"{sizes.canonical(usage.memory_used)} of {sizes.canonical(usage.memory)}"
        yield Share("Memory", round(100 * usage.memory_used / usage.memory), text)
    if limit:
        yield Share("Time", round(100 * elapsed / limit), f"{round(100 * elapsed / limit)} % of its limit")
