"""What a request to the page asks for: its job, sweep or row."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlencode

from msgspec import json, structs
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from slurmgen.errors import SlurmgenError
from slurmgen.ledger.ledger import Record
from slurmgen.ledger.request import recorded_request
from slurmgen.plan import resolve
from slurmgen.sites.profiles import load_site
from slurmgen.slurm.units import is_of_task
from slurmgen.status.job import Job, job_id, table_of
from slurmgen.text import visible
from slurmgen.web.jobs.rows import job_of, record_of
from slurmgen.web.pages import page

_PLACE = ("task", "run", "whole")
_MOST_RANKS = 1_000_000
"If it is not known how many the job has."
_MOST_TASKS = 4_000_001
"Slurm's own limit for the tasks of an array."


def asked_job(request: Request, *, may_be_pending: bool = False) -> Job:
    """The job, or its task in `task` and the run of that in `run`.

    Raises:
        HTTPException: there is no such job, task or run; or it is not known whether there is a job.
    """
    record = record_of(request.path_params["key"])
    job = job_of(record)
    if record.pending and not may_be_pending:
        raise HTTPException(404, "It is not known whether this submission became a job.")
    task, run = number(request, "task"), number(request, "run")
    if task is None:
        return job
    runs = _runs(record, task)
    if runs is None or (run is not None and run >= runs):
        raise HTTPException(404, f"Job {record.id} has no such task.")
    return structs.replace(job, id=job_id(record, f"{record.id}_{task}"), run=run)


def _runs(record: Record, task: int) -> int | None:
    """The runs of a task that have a folder each, 0 if it has only one; None if there is no such task."""
    table = table_of(record)
    if table is None:
        return 0 if is_of_task(record.output) and task < _MOST_TASKS else None
    if task not in table.tasks:
        return None
    return len(table.tasks[task]) if table.shares_gpus else 0


def query_of(request: Request) -> str:
    """What the query of an address says about the task and run, for the addresses of other parts of it."""
    place = {name: text for name in _PLACE if (text := request.query_params.get(name, ""))}
    return f"?{urlencode(place)}" if place else ""


def asked_rank(request: Request, record: Record) -> int | None:
    """The rank that a log is limited to; None for all.

    Raises:
        HTTPException: the job has no such rank.
    """
    rank, ranks = number(request, "rank"), ranks_of(record)
    if rank is not None and rank >= (ranks or _MOST_RANKS):
        raise HTTPException(404, f"The job has no rank {rank}.")
    return rank


def number(request: Request, name: str) -> int | None:
    """A number of the address; None if it has none.

    Raises:
        HTTPException: it is not a number.
    """
    text = request.query_params.get(name, "")
    if not text:
        return None
    if len(text) > 18 or not (text.isascii() and text.isdecimal()):
        raise HTTPException(400, f"{name} is not a number.")
    return int(text)


@lru_cache(maxsize=256)
def ranks_of(record: Record) -> int | None:
    """The ranks of a job; None if they are not known, as of a batch script of the user."""
    try:
        kept = recorded_request(record)
        return resolve(kept.request, load_site(kept.site, Path(kept.project))).world_size
    except SlurmgenError:
        return None


Handler = Callable[[Request], Response]


def part(handler: Handler) -> Handler:
    """A handler whose errors are shown in its place on the page."""

    def handled(request: Request) -> Response:
        try:
            return handler(request)
        except SlurmgenError as error:
            return page(request, "job_problem.html", fact=error.fact, hint=error.hint)

    return handled


def json_part(handler: Callable[[Request], object]) -> Handler:
    """A handler whose value is for a script of the page; of an error, why there is none."""

    def handled(request: Request) -> Response:
        try:
            value = handler(request)
        except SlurmgenError as error:
            value = {"problem": visible(f"{error.fact}. {error.hint}".strip())}
        return Response(json.encode(value), media_type="application/json")

    return handled
