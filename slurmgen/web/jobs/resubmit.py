"""Submit a job again after a confirmation that shows what will change."""

import shlex
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from slurmgen.errors import SlurmgenError
from slurmgen.jobs import sweep_report
from slurmgen.jobs.job import Job
from slurmgen.jobs.ledger import Record
from slurmgen.jobs.resubmit import Original, original_script, script_diff
from slurmgen.jobs.room import PER_CPU, PER_GPU
from slurmgen.jobs.sweep_table import table_of
from slurmgen.sites.profiles import profile_paths
from slurmgen.web.jobs.again import (
    FAILED,
    Form,
    arrays_again,
    first_form,
    original_of,
    proposed_for,
    submit_again,
)
from slurmgen.web.jobs.asked import asked_job
from slurmgen.web.jobs.records import job_of, key_of, record_of
from slurmgen.web.jobs.state import state_of
from slurmgen.web.pages import fields, page

_LABELS = {"time": "Time limit", "gpus": "GPUs"}
_MEMORY = {"mem": "Memory per node", PER_CPU: "Memory per CPU", PER_GPU: "Memory per GPU"}


def ask(request: Request) -> Response:
    """The form."""
    board, job = state_of(request).board, asked_job(request, may_be_pending=True)
    board.read()
    try:
        original = _original(request)
        report = board.report_of(job)
        proposed = proposed_for(original, report, state_of(request).connections)
        form = first_form(original, proposed, _tasks(job, _failed(request, original)))
    except SlurmgenError as error:
        return page(request, "job_refused.html", 422, error=error)
    is_second = bool(report and report.states and not report.ended)
    values = _values(request, original, form) | {"proposed": proposed, "is_second": is_second, "error": None}
    return page(request, "job_resubmit.html", **values)


def _tasks(job: Job, failed: int) -> str:
    """What the form chooses first: the task of the address, else those that failed, else all."""
    _, _, task = job.id.number.partition("_")
    return task or (FAILED if failed else "")


def _failed(request: Request, original: Original) -> int:
    """How many tasks of a sweep failed, as far as it is known."""
    board, record = state_of(request).board, original.record
    reports = board.group(record.part_of) or list(filter(None, [board.report(key_of(record))]))
    states = (state.state for report in reports for state in report.states)
    return sum(state in sweep_report.FAILED for state in states) if record.tasks else 0


async def preview(request: Request) -> Response:
    """How the script will differ."""
    return await run_in_threadpool(_preview, request, await fields(request))


async def do(request: Request) -> Response:
    """Submit it, and show the new job."""
    return await run_in_threadpool(_done, request, await fields(request))


def _preview(request: Request, given: dict[str, str]) -> Response:
    connections = state_of(request).connections
    try:
        original, form = _original(request), Form.of(given)
        made = arrays_again(original, form, connections)[0].submission
        with connections.use(original.job.route) as transport:
            before = original_script(transport, original)
    except SlurmgenError as error:
        return page(request, "job_error.html", error=error)
    lines = (script_diff(before, made.script) if before else made.script).splitlines()
    options = shlex.join(made.sbatch_options)
    return page(request, "job_changes.html", lines=lines, is_diff=bool(before), options=options)


def _done(request: Request, given: dict[str, str]) -> Response:
    state = state_of(request)
    try:
        original, form = _original(request), Form.of(given)
    except SlurmgenError as error:
        return page(request, "job_refused.html", 422, error=error)
    try:
        record = submit_again(original, form, state.connections, state.submitted)
    except SlurmgenError as error:
        values = _values(request, original, form) | {"proposed": None, "is_second": False, "error": error}
        return page(request, "job_resubmit.html", 422, **values)
    state.board.read()
    state.poller.hurry(job_of(record).route)
    return _submitted(request, original, record)


def _labels(form: Form) -> dict[str, str]:
    """The labels of the fields: one for memory, unless several have a value."""
    memory = {name for name in _MEMORY if form.values[name]} or {"mem"}
    return _LABELS | {name: label for name, label in _MEMORY.items() if name in memory}


def _submitted(request: Request, original: Original, record: Record) -> Response:
    return page(request, "job_submitted.html", original=original.record, record=record, key=key_of(record))


def _original(request: Request) -> Original:
    return original_of(job_of(record_of(request.path_params["key"])))


def _values(request: Request, original: Original, form: Form) -> dict[str, Any]:
    table = table_of(original.record)
    task = form.tasks if form.tasks != FAILED else ""
    return {
        "failed": _failed(request, original),
        "task": task,
        "parameters": table.tasks.get(int(task), ()) if table and task else (),
        "original": original,
        "key": key_of(original.record),
        "form": form,
        "labels": _labels(form),
        "sites": sorted({original.kept.site, *profile_paths()}),
    }


ROUTES = (
    Route("/jobs/{key}/resubmit", ask),
    Route("/jobs/{key}/resubmit", do, methods=["POST"]),
    Route("/jobs/{key}/resubmit/preview", preview, methods=["POST"]),
)
