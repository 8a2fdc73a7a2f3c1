"""The files of a job: list and download them."""

import re
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path, PurePosixPath
from threading import Lock
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from slurmgen.errors import SlurmgenError
from slurmgen.results.archive import refusal
from slurmgen.results.fetch import (
    Listing,
    Made,
    fetch_results,
    list_results,
    local_folder,
    read_file,
    record_of,
)
from slurmgen.slurm.units import readable_size
from slurmgen.status.job import Job
from slurmgen.status.sweep_results import FILES
from slurmgen.text import visible
from slurmgen.web.jobs.poller import state_of
from slurmgen.web.jobs.request import asked_job, part, query_of
from slurmgen.web.jobs.rows import record_of_job
from slurmgen.web.pages import page

SHOWN = 500
"Files in the table."
_LOGS = (".out", ".err", ".log")
_MOST_JOBS = 64
_names: dict[tuple[str, str, int | None], dict[str, str]] = {}
"The names of listed files by their hashes, of the jobs that were looked at last."
_lock = Lock()


def id_of(name: str) -> str:
    """What stands for a file in an address."""
    return sha256(name.encode(errors="surrogateescape")).hexdigest()[:16]


def listed(request: Request, job: Job) -> Listing:
    """The files of a job, which are known from now on."""
    with state_of(request).connections.use(job.route) as transport:
        listing = list_results(transport, job)
    with _lock:
        _names.pop(_place(job), None)
        _names[_place(job)] = {id_of(file.name): file.name for file in listing.files}
        while len(_names) > _MOST_JOBS:
            del _names[next(iter(_names))]
    return listing


def known_file(request: Request, job: Job) -> str | None:
    """The path on the site of the file that the address names, or `stderr`; None if it names none.

    Raises:
        HTTPException: the job has no such file.
    """
    asked = request.query_params.get("file", "")
    if asked in ("", "stderr"):
        return asked or None
    name = known_name(request, job)
    if name is None:
        raise HTTPException(404, "The job has no such file.")
    return f"{record_of(job).folder}/{name}"


def known_name(request: Request, job: Job) -> str | None:
    """The name of the file that the address names, as the site listed it; None if the job has none such."""
    asked = request.query_params.get("file", "")
    if asked not in _names.get(_place(job), {}):
        listed(request, job)
    return _names.get(_place(job), {}).get(asked)


def _place(job: Job) -> tuple[str, str, int | None]:
    return record_of(job).folder, str(job.id), job.run


def logs_in(listing: Listing) -> list[Made]:
    """The files that look like logs."""
    return [file for file in listing.files if file.name.endswith(_LOGS)]


def metrics_in(listing: Listing) -> list[Made]:
    """The files with curves, the one for epochs first."""
    found = [file for file in listing.files if Path(file.name).name in FILES]
    return sorted(found, key=lambda file: (FILES.index(Path(file.name).name), file.name))


@part
def show(request: Request) -> Response:
    """The table of the files."""
    job = asked_job(request)
    listing = listed(request, job)
    place = query_of(request)
    address = f"{request.url.path}/one{place}{'&' if place else '?'}file="
    rows = [
        (file, readable_size(file.size), f"{address}{id_of(file.name)}") for file in listing.files[:SHOWN]
    ]
    return page(
        request,
        "job_files.html",
        rows=rows,
        count=len(listing.files),
        is_cut=listing.is_cut,
        total=readable_size(sum(file.size for file in listing.files)),
        folder=record_of(job).folder,
        to=Path.cwd() / local_folder(job),
        fetch_url=f"{request.url.path.removesuffix('files')}fetch{place}",
    )


@part
def fetch(request: Request) -> Response:
    """Fetch the files into a folder of this machine; nothing is overwritten."""
    job = asked_job(request)
    folder = local_folder(job)
    with state_of(request).connections.use(job.route) as transport:
        results = fetch_results(transport, job, folder)
    return page(request, "job_fetched.html", results=results, folder=Path.cwd() / folder)


_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]")


class _Download(StreamingResponse):
    """Closes the connection before its end if the site does: the browser reports that the file is cut."""

    async def stream_response(self, send: Send) -> None:
        with suppress(SlurmgenError):
            await super().stream_response(send)


def download(request: Request) -> Response:
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
    with state_of(request).connections.use(job.route) as transport:
        size, parts = read_file(transport, record_of_job(job).folder, name)
        yield str(size).encode()
        yield from parts


def _disposition(name: str) -> str:
    shown = visible(PurePosixPath(name).name)
    plain = _NOT_PLAIN.sub("_", shown)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(shown, safe='')}"
