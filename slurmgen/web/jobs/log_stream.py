"""A log as server-sent events: the last lines, then what is added, until the job has ended.

Each event has the byte after its last line as id. A browser that lost the connection sends it back, and loses
and repeats nothing. A browser that is slow gets the next part only when it has taken the one before.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator

from msgspec import json
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from slurmgen.errors import RequestError, SlurmgenError
from slurmgen.jobs.job import Job
from slurmgen.jobs.log_files import is_pruned, path_of
from slurmgen.jobs.log_lines import PART, Lines, read_part
from slurmgen.jobs.logs import FIRST_PAUSE, LONGEST_PAUSE, REST, read, tail_start
from slurmgen.remote.transport import Transport
from slurmgen.web.jobs.asked import asked_job, asked_rank, number
from slurmgen.web.jobs.files import known_file
from slurmgen.web.jobs.log_text import runs
from slurmgen.web.jobs.poller import Poller
from slurmgen.web.jobs.records import record_of
from slurmgen.web.jobs.state import State, connections_of, state_of

LAST_LINES = 2000
"Lines of a log that are shown at first."
RETRY = 3000
"Milliseconds after which a browser connects again."


class Feed:
    """One browser that follows a log."""

    def __init__(self, state: State, job: Job, file: str | None, start: int | None, rank: int | None) -> None:
        self.pause = 0.0
        "Seconds until the next step."
        self.is_over = False
        self._connections, self._board = state.connections, state.board
        self._job, self._file, self._rank = job, file, rank
        self._lines = Lines(start, rank) if start is not None else None
        self._path, self._end = "", ""

    def step(self) -> list[bytes]:
        """The next events. It blocks while the site is queried."""
        try:
            with self._connections.use(self._job.route) as transport:
                return list(self._events(transport))
        except RequestError as error:
            self.is_over = True
            return [_event("end", {"text": f"{error.fact}. {error.hint}"})]
        except SlurmgenError as error:  # the browser connects again
            self.is_over = True
            return [_event("problem", {"text": f"{error.fact}. {error.hint}"})]

    def _events(self, transport: Transport) -> Iterator[bytes]:
        self._path = self._path or log_of(transport, self._job, self._file)
        if self._lines is None:
            start = tail_start(transport, self._path, LAST_LINES, self._rank)
            self._lines = Lines(start, self._rank)
            yield _event("start", {"path": self._path, "byte": start}, self._lines.offset)
        part = read_part(transport, self._path, self._lines.reached)
        if (part.size or 0) < self._lines.reached:  # it was written anew
            self._lines = Lines(0, self._rank)
            yield _event("restart", {}, 0)
            return
        if part.size is None:
            yield _event("none", {})
        if part.content:
            lines = self._lines(part.content)
            shown = {"lines": [runs(line) for line in lines], "rest": runs(self._lines.unfinished)}
            yield _event("lines", shown, self._lines.offset)
        self._plan_next(transport, len(part.content))
        yield _event("end", {"text": self._end}) if self.is_over else b": waiting\n\n"

    def _plan_next(self, transport: Transport, read: int) -> None:
        """When to read again; never, if the job has ended and a read since then found nothing."""
        if read:
            self.pause = 0.0 if read == PART else FIRST_PAUSE
            return
        if self._end:
            self.is_over = True
            return
        self._end = self._state_at_end(transport)
        self.pause = REST if self._end else min(max(self.pause, FIRST_PAUSE) * 1.5, LONGEST_PAUSE)

    def _state_at_end(self, transport: Transport) -> str:
        """How the job ended, as far as the poller knows; empty if it has not."""
        report = self._board.report_of(self._job)
        if report is None or not report.ended:
            return ""
        pruned = " Its folder was pruned." if is_pruned(transport, self._job) else ""
        return f"Job {self._job.id} is {report.state}.{pruned}"


def log_of(transport: Transport, job: Job, file: str | None) -> str:
    """The path of a log: that of the job, its `stderr`, or another file that the job made."""
    if file is None or file == "stderr":
        return path_of(transport, job, stderr=file == "stderr")
    return file


async def stream(request: Request) -> Response:
    """The events of the log of one job."""
    feed = await run_in_threadpool(_feed, request)
    parts = _watched(state_of(request).poller, sent(feed))
    return StreamingResponse(parts, media_type="text/event-stream")


async def _watched(poller: Poller, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same parts, while the sites are queried: the end of a log is known by the state of its job."""
    with poller.watched():
        async for part in parts:
            yield part


def _feed(request: Request) -> Feed:
    job, rank = asked_job(request), asked_rank(request, record_of(request.path_params["key"]))
    last = request.headers.get("last-event-id", "")
    start = int(last) if last.isascii() and last.isdecimal() and len(last) < 19 else number(request, "from")
    state_of(request).board.read()
    return Feed(state_of(request), job, known_file(request, job), start, rank)


async def sent(feed: Feed) -> AsyncIterator[bytes]:
    """The bytes of a stream, until the feed is over."""
    yield f"retry: {RETRY}\n\n".encode()
    while not feed.is_over:
        for event in await run_in_threadpool(feed.step):
            yield event
        if not feed.is_over:
            await asyncio.sleep(feed.pause)


def _event(kind: str, value: object, offset: int | None = None) -> bytes:
    place = b"" if offset is None else b"id: %d\n" % offset
    return place + b"event: %s\ndata: %s\n\n" % (kind.encode(), json.encode(value))


def whole(request: Request) -> Response:
    """The log as it is, to be saved."""
    job = asked_job(request)
    file = known_file(request, job)
    name = f"{job.id}{'-stderr' if file == 'stderr' else ''}.log"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    content = _content(request, job, file)
    first = next(content, b"")  # an error before it has a page of its own
    return StreamingResponse(_to_end(first, content), media_type="text/plain", headers=headers)


def _content(request: Request, job: Job, file: str | None) -> Iterator[bytes]:
    with connections_of(request).use(job.route) as transport:
        yield from read(transport, log_of(transport, job, file))


def _to_end(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    """The parts of a log; what was not read is said at the end of the file."""
    yield first
    try:
        yield from rest
    except SlurmgenError as error:
        yield f"\nslurmgen: the rest of the log was not read: {error.fact}\n".encode()
