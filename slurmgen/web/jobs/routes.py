"""The addresses of this part of the page."""

import time

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from slurmgen.web.jobs import actions, job, poller
from slurmgen.web.jobs.poller import state_of
from slurmgen.web.jobs.rows import KINDS, View, shown
from slurmgen.web.pages import page


def show(request: Request) -> Response:
    """The table; with a search, an order or a page in the address, that part of it."""
    board, view = state_of(request).board, View.of(request.query_params)
    (rows, version), now = board.rows(), time.time()
    found = shown(rows, view, now)
    return page(
        request,
        "jobs.html",
        view=view,
        shown=found,
        total=len(rows),
        version=version,
        kinds=KINDS,
        problems=board.problems(),
        rows=found.rows,
        opened=view.opened,
        now=now,
    )


async def retry(request: Request) -> Response:
    """Query the sites that were not reached again, and say which still are not."""
    state = state_of(request)
    state.connections.forgive()
    await state.poller.retry()
    return page(request, "jobs_problems.html", problems=state.board.problems())


ROUTES = (
    Route("/jobs", show),
    Route("/jobs/retry", retry, methods=["POST"]),
    Route("/jobs/events", poller.stream_events),
    *actions.CANCEL_ROUTES,
    *actions.RESUBMIT_ROUTES,
    *job.ROUTES,
)
