"""The log of a job, as it grows."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator

from msgspec import json
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from slurmgen.errors import RequestError, SlurmgenError
from slurmgen.remote.transport import Transport
from slurmgen.status.job import Job
from slurmgen.status.logs import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    PART,
    REST,
    Lines,
    is_pruned,
    last_lines,
    path_of,
    read,
    read_part,
)
from slurmgen.text import visible
from slurmgen.web.jobs.files import known_file
from slurmgen.web.jobs.poller import Poller, State, state_of
from slurmgen.web.jobs.request import asked_job, asked_rank, number
from slurmgen.web.jobs.rows import record_of

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
        except SlurmgenError as error:
            self.is_over = True
            kind = "end" if isinstance(error, RequestError) else "problem"  # after which the browser returns
            return [_event(kind, {"text": f"{error.fact}. {error.hint}"})]

    def _events(self, transport: Transport) -> Iterator[bytes]:
        self._path = self._path or log_of(transport, self._job, self._file)
        if self._lines is None:
            start, _ = last_lines(transport, self._path, LAST_LINES, self._rank)
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
    """The path of a log: the job's own, its `stderr`, or another file that the job made."""
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
    with state_of(request).connections.use(job.route) as transport:
        yield from read(transport, log_of(transport, job, file))


def _to_end(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    """The parts of a log; what was not read is said at the end of the file."""
    yield first
    try:
        yield from rest
    except SlurmgenError as error:
        yield f"\nslurmgen: the rest of the log was not read: {error.fact}\n".encode()


Run = tuple[str, str]
"A text and the classes of its style, such as `bold c1`."
_STYLE = re.compile("\x1b\\[([0-9;:]{0,64})m")
_ERASE = re.compile("\x1b\\[[0-9;]{0,8}K")
_BOLD, _NOT_BOLD, _DEFAULT = 1, 22, 39
_COLOURS = {base + number: f"c{number}" for base in (30, 90) for number in range(8)}
_MORE = {38, 48}
"They begin a colour of 256, or of all; it is left out."


def runs(line: bytes) -> list[Run]:
    r"""A line as texts of one style each. What a terminal would have overwritten is left out.

    >>> runs(b"10 %\r\x1b[1;31mbad\x1b[0m \x1b]0;title\x07<b>")
    [('bad', 'bold c1'), (' \\x1b]0;title\\x07<b>', '')]
    """
    text = _ERASE.sub("", line.decode(errors="backslashreplace")).rstrip("\r").rpartition("\r")[2]
    found, bold, colour, start = list[Run](), False, "", 0
    for match in [*_STYLE.finditer(text), None]:
        part = text[start : match.start() if match else None]
        if part:
            found.append((visible(part, keep="\t"), " ".join(filter(None, ["bold" * bold, colour]))))
        if match:
            bold, colour = _styled(match[1], bold, colour)
            start = match.end()
    return found


def _styled(codes: str, bold: bool, colour: str) -> tuple[bool, str]:
    for code in (int(word or 0) for word in re.split("[;:]", codes)):
        if code in _MORE:
            break
        bold = code == _BOLD or (bold and code not in (0, _NOT_BOLD))
        colour = _COLOURS.get(code, "" if code in (0, _DEFAULT) else colour)
    return bold, colour
