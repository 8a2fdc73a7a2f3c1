"""The page of a sweep: its tasks and curves."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from msgspec import structs
from starlette.exceptions import HTTPException
from starlette.requests import Request

from slurmgen.ledger.ledger import Record
from slurmgen.remote.transport import Transport
from slurmgen.results.fetch import Made
from slurmgen.slurm.replies import ENDED
from slurmgen.status.job import Job
from slurmgen.status.lookup import all_arrays
from slurmgen.status.query import query_and_save
from slurmgen.status.sweep import UNLISTED
from slurmgen.status.sweep_results import Result, metrics_of, number_of, read_curves, read_results
from slurmgen.submit.again import with_earlier
from slurmgen.text import visible
from slurmgen.web.jobs.board import Board
from slurmgen.web.jobs.files import id_of, known_file, listed, logs_in, metrics_in
from slurmgen.web.jobs.job_state import tone_of
from slurmgen.web.jobs.poller import state_of
from slurmgen.web.jobs.request import asked_job, json_part
from slurmgen.web.jobs.rows import key_of, path_of
from slurmgen.web.pages import settings_of


@json_part
def show(request: Request) -> object:
    """All runs of the sweep that the address names."""
    job = asked_job(request)
    if job.record is None or not job.record.tasks:
        raise HTTPException(404, "This job is not a sweep.")
    with state_of(request).connections.use(job.route) as transport:
        arrays = with_earlier(all_arrays(job))
        states = _states(transport, arrays, state_of(request).board)
        return _sweep(transport, arrays, states, settings_of(request).url)


def _states(transport: Transport, arrays: Sequence[Job], board: Board) -> dict[str, str]:
    board.read()
    reports = {array: board.report_of(array) for array in arrays}
    known = {array: one for array, one in reports.items() if one and (one.states or one.ended)}
    asked = query_and_save(transport, [array for array in arrays if array not in known], explain=False)
    return {state.id: state.state for report in (*known.values(), *asked) for state in report.states}


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


@json_part
def found_curves(request: Request) -> object:
    """The logs of a job beside its own, and its files with curves."""
    listing = listed(request, asked_job(request))
    return {"logs": _named(logs_in(listing)), "metrics": _named(metrics_in(listing))}


def _named(files: list[Made]) -> list[dict[str, str]]:
    return [{"id": id_of(file.name), "name": visible(file.name)} for file in files]


@json_part
def curves(request: Request) -> object:
    """The curves in one of its files, with names that a page can show: a job may choose any."""
    job = asked_job(request)
    path = known_file(request, job)
    if path is None:
        raise HTTPException(400, "Name a file of the job.")
    with state_of(request).connections.use(job.route) as transport:
        found = read_curves(transport, path)
    return structs.replace(found, values={visible(name): column for name, column in found.values.items()})
