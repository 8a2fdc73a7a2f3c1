"""The runs of a sweep as JSON: parameters, states and what they measured."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from slurmgen.errors import SlurmgenError
from slurmgen.jobs.job import Job
from slurmgen.jobs.ledger import Record
from slurmgen.jobs.lookup import all_arrays
from slurmgen.jobs.report import Report
from slurmgen.jobs.status import query_and_save
from slurmgen.jobs.sweep_again import with_earlier
from slurmgen.jobs.sweep_report import UNLISTED
from slurmgen.jobs.sweep_results import Result, metrics_of, number_of, read_results
from slurmgen.remote.transport import Transport
from slurmgen.slurm.replies import ENDED
from slurmgen.text import visible
from slurmgen.web.jobs.asked import asked_job
from slurmgen.web.jobs.board import Board
from slurmgen.web.jobs.curves import as_json, problem
from slurmgen.web.jobs.job_state import tone_of
from slurmgen.web.jobs.records import key_of, path_of
from slurmgen.web.jobs.state import connections_of, state_of
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
    """The state of each task, as far as the poller knows; else, as Slurm replies."""
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
