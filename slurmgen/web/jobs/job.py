"""The page of one job."""

from collections.abc import Iterator
from urllib.parse import urlencode

from msgspec import to_builtins
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from slurmgen.errors import RequestError
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.ledger.request import recorded_request, resubmits
from slurmgen.status.job import Job, table_of
from slurmgen.status.lookup import waited_for_by, waits_for
from slurmgen.status.report_text import origin
from slurmgen.web.jobs import files, job_state, log, sweep
from slurmgen.web.jobs.actions import together
from slurmgen.web.jobs.poller import state_of
from slurmgen.web.jobs.request import asked_job, ranks_of
from slurmgen.web.jobs.rows import key_of, path_of
from slurmgen.web.pages import page, settings_of

_MOST_LISTED = 128
"Ranks that a field offers by number; of more, the user types one."

_STARTS = {
    "ok": "Starts after the completion of",
    "notok": "Starts after the failure of",
    "any": "Starts after the end of",
}
"How a job depends on another one, by the type of the dependency."


def show(request: Request) -> Response:
    """The page, with what the ledger knows; its parts query the site."""
    job, key = asked_job(request, may_be_pending=True), request.path_params["key"]
    record = job.record
    assert record is not None  # noqa: S101  # `asked_job` finds jobs by their records
    table, ranks = table_of(record), ranks_of(record)
    return page(
        request,
        "job.html",
        key=key,
        record=record,
        here=path_of(key),
        is_sweep=table is not None and str(job.id) == record.id,
        parameters=_parameters(job),
        ranks=ranks,
        listed_ranks=range(ranks) if ranks and ranks <= _MOST_LISTED else (),
        facts=list(_facts(job, record)),
        asked=list(_request(record)),
        group=_active_group(request, record),
        links=list(_links(request, job, record)),
        **job_state.remembered(request, job),
    )


def _parameters(job: Job) -> list[dict[str, str]]:
    table, (_, _, index) = table_of(job.record), str(job.id).partition("_")
    runs = list(table.tasks.get(int(index), ())) if table and index else []
    return runs if job.run is None else runs[job.run : job.run + 1]


def _facts(job: Job, record: Record) -> Iterator[tuple[str, str]]:
    yield from ((label.capitalize(), text) for label, text in origin(job))
    rows = (("Run folder", record.folder), ("Snapshot", record.snapshot))
    yield from ((label, text) for label, text in rows if text)


def _request(record: Record) -> Iterator[tuple[str, str]]:
    """What was asked for; of variables, only the names: a value may be private."""
    try:
        values = to_builtins(recorded_request(record).request)
    except RequestError:
        return
    for name, value in values.items():
        text = ", ".join(value) if name == "env" else _plain(value)
        yield name.replace("_", " "), text


def _plain(value: object) -> str:
    """A value of a request in the form of a command line."""
    if isinstance(value, dict):
        return "  ".join(f"{name}={_plain(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain, value))
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _links(request: Request, job: Job, record: Record) -> Iterator[tuple[str, str, str]]:
    for how, other in _related(job, record):
        at = f" at {other.site}" * (other.site != record.site)
        yield how, f"{other.name} {other.id}{at}", _address(request, other)


def _related(job: Job, record: Record) -> Iterator[tuple[str, Record]]:
    ledger = Ledger()
    if str(job.id) != record.id:
        yield "All tasks of", record
    yield from ((_STARTS.get(kind, "Starts after"), other) for kind, other in waits_for(record))
    yield from (("Waited for by", other) for other in waited_for_by(record))
    earlier = resubmits(record)
    if earlier and (before := ledger.of_key(earlier)):
        yield "Resubmits", before
    group = ledger.group_of(record.part_of)
    yield from (("Submitted together with", one) for one in group if one.key != record.key)


def _active_group(request: Request, record: Record) -> int:
    board = state_of(request).board
    board.read()
    members = [] if record.tasks else together(board, record)
    active = sum(not report.ended for report in members)
    return active if len(members) > 1 else 0


def _address(request: Request, record: Record, **place: int) -> str:
    query = f"?{urlencode(place)}" if place else ""
    return settings_of(request).url(path_of(key_of(record)) + query)


ROUTES = (
    Route("/jobs/{key}", show),
    Route("/jobs/{key}/state", job_state.show),
    Route("/jobs/{key}/state", job_state.again, methods=["POST"]),
    Route("/jobs/{key}/log", log.stream),
    Route("/jobs/{key}/log.txt", log.whole),
    Route("/jobs/{key}/found", sweep.found_curves),
    Route("/jobs/{key}/curves", sweep.curves),
    Route("/jobs/{key}/gpus", job_state.show_gpus, methods=["POST"]),
    Route("/jobs/{key}/files", files.show),
    Route("/jobs/{key}/files/one", files.download),
    Route("/jobs/{key}/fetch", files.fetch, methods=["POST"]),
    Route("/jobs/{key}/script", job_state.show_script),
    Route("/jobs/{key}/sweep", sweep.show),
)
