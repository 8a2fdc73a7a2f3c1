"""Download one file of a job: it is streamed from the site to the browser, and kept nowhere between."""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import PurePosixPath
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from slurmgen.errors import SlurmgenError
from slurmgen.jobs.job import Job
from slurmgen.jobs.results.names import refusal
from slurmgen.jobs.results.one_file import read_file
from slurmgen.text import visible
from slurmgen.web.jobs.asked import asked_job
from slurmgen.web.jobs.files import known_name
from slurmgen.web.jobs.records import record_of_job
from slurmgen.web.jobs.state import connections_of

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]")


class _Download(StreamingResponse):
    """Closes the connection before its end if the site does: the browser reports that the file is cut."""

    async def stream_response(self, send: Send) -> None:
        with suppress(SlurmgenError):
            await super().stream_response(send)


def show(request: Request) -> Response:
    """The file that the address names, as an attachment."""
    job = asked_job(request)
    name = known_name(request, job)
    if name is None or refusal(name):
        raise HTTPException(404, "The job has no such file.")
    parts = _parts(request, job, name)
    size = int(next(parts))  # an error before it has a page of its own
    headers = {"Content-Length": str(size), "Content-Disposition": _disposition(name)}
    return _Download(parts, media_type="application/octet-stream", headers=headers)


def _parts(request: Request, job: Job, name: str) -> Iterator[bytes]:
    """The size of a file as text, then its parts."""
    with connections_of(request).use(job.route) as transport:
        content = read_file(transport, record_of_job(job).folder, name)
        yield str(content.size).encode()
        yield from content.parts


def _disposition(name: str) -> str:
    """An attachment of that name, with a plainer one for old browsers."""
    shown = visible(PurePosixPath(name).name)
    plain = _NOT_PLAIN.sub("_", shown)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(shown, safe='')}"
