"""Cancel a job, one task of a sweep, or all jobs of a group, after a confirmation."""

from collections.abc import Sequence

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from slurmgen.errors import SlurmgenError
from slurmgen.jobs.cancel import cancel_all
from slurmgen.jobs.job import Job, group_by_route
from slurmgen.jobs.ledger import Record
from slurmgen.jobs.races import Races
from slurmgen.jobs.report import Report
from slurmgen.jobs.slurm_client import UNKNOWN
from slurmgen.jobs.status import save_final_states
from slurmgen.web.jobs.asked import asked_job, query_of
from slurmgen.web.jobs.board import Board
from slurmgen.web.jobs.records import key_of, record_of_job
from slurmgen.web.jobs.state import State, state_of
from slurmgen.web.pages import page


def ask(request: Request) -> Response:
    """The confirmation."""
    return _dialog(request, _reports(request))


async def do(request: Request) -> Response:
    """Cancel, and show what Slurm replied."""
    return await run_in_threadpool(_done, request)


def _done(request: Request) -> Response:
    reports = _reports(request)
    try:
        done = _cancelled(state_of(request), reports)
    except SlurmgenError as error:
        return _dialog(request, reports, error=error)
    return _dialog(request, reports, done=done)


def _dialog(
    request: Request,
    reports: Sequence[Report],
    error: SlurmgenError | None = None,
    done: Sequence[Report] = (),
) -> Response:
    query = query_of(request)
    is_task = _is_task(reports[0].job)
    values = {"reports": reports, "is_task": is_task, "query": query, "error": error, "done": done}
    return page(request, "job_cancel.html", 422 if error else 200, **values)


def _cancelled(state: State, reports: Sequence[Report]) -> list[Report]:
    """Cancel those jobs that have not ended, and give up what is still submitted.

    Returns:
        What is known of all of them then.
    """
    jobs = [report.job for report in reports]
    done = cancel_all(jobs, state.connections.use, lambda _line: None)
    whole = [report for report in done if not _is_task(report.job)]
    save_final_states(whole)
    for route in group_by_route(jobs):
        state.board.put(route, [report for report in whole if report.job.route == route])
        state.poller.hurry(route)
    return done


def _is_task(job: Job) -> bool:
    """Whether it is one task of a job, whose state is not that of the job."""
    return str(job.id) != record_of_job(job).id


def _reports(request: Request) -> list[Report]:
    """What is known of the jobs that an address names."""
    is_whole = request.query_params.get("whole") == "1"
    job, board = asked_job(request, may_be_pending=is_whole), state_of(request).board
    record, alone = record_of_job(job), Report(job=job, state=UNKNOWN)
    if _is_task(job):
        return [alone]
    board.read()
    group = together(board, record) if is_whole else []
    return group or [board.report(key_of(record)) or alone]


def together(board: Board, record: Record) -> list[Report]:
    """What is known of the group of a job; of a race also of the jobs that are still being submitted.

    A race only ends if all of them are cancelled.
    """
    race = Races().of(record)
    entries = Races().entries(race) if race else ()
    return [report for one in entries if (report := board.report(key_of(one)))] or board.group(record.part_of)


ROUTES = (
    Route("/jobs/{key}/cancel", ask),
    Route("/jobs/{key}/cancel", do, methods=["POST"]),
)
