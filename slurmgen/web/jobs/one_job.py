"""The page of one job."""

from collections.abc import Iterator, Sequence
from urllib.parse import urlencode

from msgspec import to_builtins
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from slurmgen.errors import RequestError
from slurmgen.jobs.job import Job
from slurmgen.jobs.ledger import Ledger, Record
from slurmgen.jobs.lookup import all_arrays
from slurmgen.jobs.recorded_request import recorded_request, resubmits
from slurmgen.jobs.report import Report
from slurmgen.jobs.report_text import details, head, origin
from slurmgen.jobs.status import query, save_final_states
from slurmgen.jobs.sweep_report import joined
from slurmgen.jobs.sweep_table import table_of
from slurmgen.slurm import durations
from slurmgen.web.jobs import curves, files, gpu_use, log_stream, script, sweep
from slurmgen.web.jobs.asked import asked_job, query_of, ranks_of
from slurmgen.web.jobs.records import key_of, path_of
from slurmgen.web.jobs.state import connections_of
from slurmgen.web.pages import page, settings_of

_STOP_POLLING = 286
"The status by which htmx is asked to repeat a request no more."
_MOST_LISTED = 128
"Ranks that a field offers by number; of more, the user types one."
_TONE_AT_END = {"COMPLETED": "good", "CANCELLED": "muted", "GONE": "muted", "UNKNOWN": "muted"}
_WAITS = {"PENDING", "CONFIGURING", "REQUEUED", "SUSPENDED"}
_RUNS = {"RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING"}


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
        job=job,
        here=path_of(key),
        query=query_of(request),
        is_sweep=table is not None and str(job.id) == record.id,
        parameters=_parameters(job),
        ranks=ranks,
        listed_ranks=range(ranks) if ranks and ranks <= _MOST_LISTED else (),
        facts=list(_facts(job, record)),
        asked=list(_request(record)),
        links=list(_links(request, job, record)),
    )


def _parameters(job: Job) -> list[dict[str, str]]:
    """The parameters of the runs of a task; of one run, if that is asked for."""
    table, (_, _, index) = table_of(job.record), str(job.id).partition("_")
    runs = list(table.tasks.get(int(index), ())) if table and index else []
    return runs if job.run is None else runs[job.run : job.run + 1]


def _facts(job: Job, record: Record) -> Iterator[tuple[str, str]]:
    """Where the job comes from: labels and texts."""
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
    """Related jobs: how, the name and the address of each."""
    ledger = Ledger()
    if str(job.id) != record.id:
        yield "All tasks of", f"{record.name} {record.id}", _address(request, record)
    earlier = resubmits(record)
    if earlier and (before := ledger.of_key(earlier)):
        yield "Resubmits", f"{before.name} {before.id}", _address(request, before)
    for other in ledger.group(record):
        if other.key != record.key:
            yield "Submitted together with", f"{other.name} {other.id}", _address(request, other)


def _address(request: Request, record: Record, **place: int) -> str:
    query = f"?{urlencode(place)}" if place else ""
    return settings_of(request).url(path_of(key_of(record)) + query)


def _reports(request: Request, jobs: Sequence[Job]) -> list[Report]:
    """The reports of jobs of one site; what the ledger remembers, if the site is not reached."""
    reports = query(jobs, connections_of(request).use, lenient=True)
    save_final_states(reports)
    return reports


def state(request: Request) -> Response:
    """The state of the job now, in the words of `slurmgen status`."""
    job = asked_job(request)
    jobs = all_arrays(job) if job.record and str(job.id) == job.record.id else [job]
    report = joined(_reports(request, jobs))[0]
    return page(
        request,
        "job_state.html",
        _STOP_POLLING if report.ended else 200,
        query=query_of(request),
        report=report,
        head=list(head(report)),
        details=list(details(report)),
        shares=list(gpu_use.shares(report)),
        tone=_tone(report),
        is_whole=report.is_array and not report.segment,
        duration=durations.canonical,
    )


def state_again(request: Request) -> Response:
    """The state, after another try to reach a site that refused the login."""
    connections_of(request).forgive()
    return state(request)


def _tone(report: Report) -> str:
    """How the state is coloured."""
    if report.state in _WAITS or report.state in _RUNS:
        return "accent" if report.state in _RUNS else "warning"
    return _TONE_AT_END.get(report.state, "error")


ROUTES = (
    Route("/jobs/{key}", show),
    Route("/jobs/{key}/state", state),
    Route("/jobs/{key}/state", state_again, methods=["POST"]),
    Route("/jobs/{key}/log", log_stream.stream),
    Route("/jobs/{key}/log.txt", log_stream.whole),
    Route("/jobs/{key}/found", curves.found),
    Route("/jobs/{key}/curves", curves.curves),
    Route("/jobs/{key}/gpus", gpu_use.show),
    Route("/jobs/{key}/files", files.show),
    Route("/jobs/{key}/fetch", files.fetch, methods=["POST"]),
    Route("/jobs/{key}/script", script.show),
    Route("/jobs/{key}/sweep", sweep.show),
)
