"""The changes of the table, as server-sent events: only the rows that have changed."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from msgspec import json
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from slurmgen.web.jobs.board import Board
from slurmgen.web.jobs.state import state_of
from slurmgen.web.jobs.table import Changes
from slurmgen.web.pages import page

_HEARTBEAT = 15.0
"Seconds after which a comment is sent, so that a connection that is gone is noticed."
_RETRY = "retry: 2000\n\n"
"Milliseconds until the browser connects again."


async def stream(request: Request) -> Response:
    """Send changes until the tab is closed. It goes on where the tab was, also after a break."""
    return StreamingResponse(_events(request), media_type="text/event-stream")


async def _events(request: Request) -> AsyncIterator[str]:
    state = state_of(request)
    board, changed = state.board, asyncio.Event()
    loop = asyncio.get_running_loop()
    version = request.headers.get("last-event-id") or request.query_params.get("since", "")
    with board.listened(lambda: loop.call_soon_threadsafe(changed.set)), state.poller.watched():
        yield _RETRY
        while True:
            changed.clear()
            changes = await run_in_threadpool(board.since, version)
            if changes.rows or changes.whole or changes.version != version:
                version = changes.version
                yield await run_in_threadpool(_event, request, board, changes)
            try:
                await asyncio.wait_for(changed.wait(), _HEARTBEAT)
            except TimeoutError:
                yield ": still here\n\n"


def _event(request: Request, board: Board, changes: Changes) -> str:
    data = {
        "whole": changes.whole,
        "rows": _text(request, "jobs_rows.html", rows=changes.rows, opened=(), now=time.time()),
        "problems": _text(request, "jobs_problems.html", problems=board.problems()),
    }
    return f"id: {changes.version}\nevent: changes\ndata: {json.encode(data).decode()}\n\n"


def _text(request: Request, template: str, **values: Any) -> str:
    return bytes(page(request, template, **values).body).decode()
