"""The parts of a job page that change: state, script and use of GPUs."""

import time
from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from typing import Any

from msgspec import structs
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from slurmgen.live.gpus import Sampler
from slurmgen.results.fetch import submitted_script
from slurmgen.slurm import units
from slurmgen.slurm.units import is_of_task
from slurmgen.status.job import Job
from slurmgen.status.lookup import all_arrays
from slurmgen.status.query import query
from slurmgen.status.report import Report
from slurmgen.status.report_text import details, head
from slurmgen.status.slurm import UNKNOWN
from slurmgen.status.sweep import is_sweep, joined, tally
from slurmgen.text import counted, visible
from slurmgen.web.jobs.board import Board, Problem
from slurmgen.web.jobs.poller import State, state_of
from slurmgen.web.jobs.request import asked_job, part, query_of
from slurmgen.web.jobs.rows import path_of, record_of_job
from slurmgen.web.pages import page

_TONE_AT_END = {"COMPLETED": "good", "CANCELLED": "muted", "GONE": "muted", "UNKNOWN": "muted"}
_WAITS = {"PENDING", "CONFIGURING", "REQUEUED", "SUSPENDED"}
_RUNS = {"RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING"}


async def show(request: Request) -> Response:
    """The state, in the words of `slurmgen status`; status 204 if the page shows it already."""
    state_of(request).poller.touch()
    return await run_in_threadpool(_show, request)


async def again(request: Request) -> Response:
    """The state, after another try to reach a site that refused the login."""
    state_of(request).connections.forgive()
    await state_of(request).poller.retry()
    return await show(request)


def remembered(request: Request, job: Job) -> dict[str, Any]:
    """The values of the template of the state, without a query."""
    return _values(request, job, _known(state_of(request).board, job))


def _show(request: Request) -> Response:
    job, state = asked_job(request), state_of(request)
    state.board.read()
    report = _known(state.board, job)
    # Once a job has ended, accounting may know more of it than the poller read at its end.
    values = _values(request, job, _asked(state, job) if report.ended else report)
    if request.query_params.get("shown") == values["shown"]:
        return Response(status_code=204)
    return page(request, "job_state.html", **values)


def _jobs(job: Job) -> list[Job]:
    return all_arrays(job) if str(job.id) == record_of_job(job).id else [job]


def _known(board: Board, job: Job) -> Report:
    return joined([board.report_of(one) or Report(job=one, state=UNKNOWN) for one in _jobs(job)])[0]


def _asked(state: State, job: Job) -> Report:
    """What the site replies; what the ledger remembers, if it is not reached."""
    return joined(query(_jobs(job), state.connections.use, lenient=True))[0]


def _values(request: Request, job: Job, report: Report) -> dict[str, Any]:
    problem = None if report.ended else state_of(request).board.problem(job.route)
    return {
        "job_path": path_of(request.path_params["key"]),
        "query": query_of(request),
        "job": job,
        "report": report,
        "problem": problem,
        "shown": _digest(report, problem),
        "head": [tally(report)] if is_sweep(report) and report.states else list(head(report)),
        "details": list(details(report)),
        "shares": list(shares(report)),
        "tone": tone_of(report.state),
        "is_whole": report.is_array and not report.segment,
        "tasks": _tasks(job, report),
        "duration": units.canonical_time,
    }


def _tasks(job: Job, report: Report) -> list[str] | None:
    record = record_of_job(job)
    if record.tasks or not is_of_task(record.output) or str(job.id) != record.id:
        return None
    numbers = (state.id.rpartition("_")[2] for state in report.states if state.id != record.id)
    return [number for number in numbers if number.isdecimal()]


def _digest(report: Report, problem: Problem | None) -> str:
    """The same while nothing has changed but the clock of the job."""
    states = tuple(structs.replace(state, elapsed="") for state in report.states)
    text = repr((structs.replace(report, states=states), problem))
    return sha256(text.encode(errors="backslashreplace")).hexdigest()[:16]


def tone_of(state: str) -> str:
    """How a state is coloured."""
    if state in _WAITS or state in _RUNS:
        return "accent" if state in _RUNS else "warning"
    return _TONE_AT_END.get(state, "error")


@part
def show_gpus(request: Request) -> Response:
    """A sample of a running job, which starts a short step in it."""
    job = asked_job(request)
    with state_of(request).connections.use(job.route) as transport:
        sample = _sampler(job).sample(transport, time.monotonic())
    return page(request, "job_gpus.html", sample=sample, size=units.canonical_size)


@lru_cache(64)
def _sampler(job: Job) -> Sampler:
    """It remembers since when GPUs are idle."""
    return Sampler(job)


def shares(report: Report) -> Iterator[tuple[str, int, str]]:
    """How much of its allocation a job used, once it has ended: label, percent and text.

    Nothing where the site has no accounting.
    """
    usage, elapsed, limit = report.usage, report.elapsed, report.time_limit
    if usage is None or not elapsed or report.is_array:
        return
    if usage.gpus and usage.gpu_percent is not None:
        yield "GPU", usage.gpu_percent, f"{usage.gpu_percent} % of {counted(usage.gpus, 'GPU')}"
    if usage.cpus and usage.cpu_seconds is not None:
        percent = round(100 * usage.cpu_seconds / (elapsed * usage.cpus))
        yield "CPU", percent, f"{percent} % of {counted(usage.cpus, 'CPU')}"
    if usage.memory and usage.memory_used:
        text = f"{units.canonical_size(usage.memory_used)} of {units.canonical_size(usage.memory)}"
        yield "Memory", round(100 * usage.memory_used / usage.memory), text
    if limit:
        percent = round(100 * elapsed / limit)
        yield "Time", percent, f"{percent} % of its limit"


@part
def show_script(request: Request) -> Response:
    """The script, read-only."""
    job = asked_job(request)
    with state_of(request).connections.use(job.route) as transport:
        text = submitted_script(transport, job)
    return page(request, "job_script.html", text=visible(text, keep="\n\t"))
