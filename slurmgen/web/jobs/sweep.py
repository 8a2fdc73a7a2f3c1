"""The page of a sweep: its tasks and curves."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from msgspec import json, structs
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from slurmgen.errors import SlurmgenError
from slurmgen.ledger.ledger import Record
from slurmgen.remote.transport import Transport
from slurmgen.results.fetch import Made
from slurmgen.slurm.replies import ENDED
from slurmgen.status.job import Job
from slurmgen.status.lookup import all_arrays
from slurmgen.status.query import query_and_save
from slurmgen.status.report import Report
from slurmgen.status.sweep import UNLISTED
from slurmgen.status.sweep_results import Curves, Result, metrics_of, number_of, read_curves, read_results
from slurmgen.submit.again import with_earlier
from slurmgen.text import visible
from slurmgen.web.jobs.board import Board
from slurmgen.web.jobs.files import id_of, known_file, listed, logs_in, metrics_in
from slurmgen.web.jobs.job_state import tone_of
from slurmgen.web.jobs.poller import connections_of, state_of
from slurmgen.web.jobs.request import asked_job
from slurmgen.web.jobs.rows import key_of, path_of
from slurmgen.web.pages import settings_of


def show(request: Request) -> Response:
    """All runs of the sweep that the address names."""
    job = asked_job(request)
    if job.record is None or not job.record.tasks:
        raise HTTPException(404, "This job is not a sweep.")
    try:
        with connections_of(request).use(job.route) as transport:
            arrays = with_earlier(all_arrays(job))
            states = _states(transport, arrays, state_of(request).board)
            return as_json(_sweep(transport, arrays, states, settings_of(request).url))
    except SlurmgenError as error:
        return problem(error)


def _states(transport: Transport, arrays: Sequence[Job], board: Board) -> dict[str, str]:
    board.read()
    known = {array: report for array in arrays if (report := board.report_of(array)) and _says(report)}
    asked = query_and_save(transport, [array for array in arrays if array not in known], explain=False)
    return {state.id: state.state for report in (*known.values(), *asked) for state in report.states}


def _says(report: Report) -> bool:
    return bool(report.states) or report.ended


def _sweep(
    transport: Transport, arrays: Sequence[Job], states: Mapping[str, str], url: Callable[[str], str]
) -> dict[str, Any]:
    results = read_results(transport, arrays)
    records = {job.record.id: job.record for job in arrays if job.record}
    metrics = [
        name for name in metrics_of(results) if any(number_of(one, name) is not None for one in results)
    ]
    parameters = list(dict.fromkeys(name for one in results for name in one.parameters))
    return {
        "parameters": [visible(name) for name in parameters],
        "metrics": [visible(name) for name in metrics],
        "runs": [_run(one, parameters, metrics, states, records, url) for one in results],
    }


def _run(
    result: Result,
    parameters: Sequence[str],
    metrics: Sequence[str],
    states: Mapping[str, str],
    records: dict[str, Record],
    url: Callable[[str], str],
) -> dict[str, Any]:
    task, _, run = result.task.partition("/")
    array, _, index = task.partition("_")
    place = urlencode({"task": index} | ({"run": run} if run else {}))
    state = states.get(task, UNLISTED)
    return {
        "task": result.task,
        "url": url(f"{path_of(key_of(records[array]))}?{place}"),
        "state": visible(state),
        "tone": "muted" if state == UNLISTED else tone_of(state),
        "ended": state in {*ENDED, UNLISTED},
        "parameters": [visible(result.parameters.get(name, "")) for name in parameters],
        "metrics": [number_of(result, name) for name in metrics],
    }


def as_json(value: object) -> Response:
    """A reply for a script of the page."""
    return Response(json.encode(value), media_type="application/json")


def problem(error: SlurmgenError) -> Response:
    """Why there is no reply, for a script of the page."""
    return as_json({"problem": visible(f"{error.fact}. {error.hint}".strip())})


def found_curves(request: Request) -> Response:
    """The logs of a job beside its own, and its files with curves."""
    try:
        listing = listed(request, asked_job(request))
    except SlurmgenError as error:
        return problem(error)
    return as_json({"logs": _named(logs_in(listing)), "metrics": _named(metrics_in(listing))})


def _named(files: list[Made]) -> list[dict[str, str]]:
    return [{"id": id_of(file.name), "name": visible(file.name)} for file in files]


def curves(request: Request) -> Response:
    """The curves in one of its files."""
    job = asked_job(request)
    try:
        path = known_file(request, job)
        if path is None:
            raise HTTPException(400, "Name a file of the job.")
        with connections_of(request).use(job.route) as transport:
            return as_json(_shown(read_curves(transport, path)))
    except SlurmgenError as error:
        return problem(error)


def _shown(curves: Curves) -> Curves:
    """The curves with names that a page can show; a job may choose any."""
    return structs.replace(curves, values={visible(name): column for name, column in curves.values.items()})
