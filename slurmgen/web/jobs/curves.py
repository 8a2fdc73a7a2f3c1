"""The curves of a job as JSON, and which of its files are logs or have curves."""

from msgspec import json, structs
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from slurmgen.errors import SlurmgenError
from slurmgen.jobs.metrics import Curves, read_curves
from slurmgen.jobs.results.listing import Made
from slurmgen.text import visible
from slurmgen.web.jobs.asked import asked_job
from slurmgen.web.jobs.files import id_of, known_file, listed, logs_in, metrics_in
from slurmgen.web.jobs.state import connections_of


def as_json(value: object) -> Response:
    """A reply for a script of the page."""
    return Response(json.encode(value), media_type="application/json")


def problem(error: SlurmgenError) -> Response:
    """Why there is no reply, for a script of the page."""
    return as_json({"problem": visible(f"{error.fact}. {error.hint}".strip())})


def found(request: Request) -> Response:
    """The logs of a job beside its own, and its files with curves."""
    try:
        listing = listed(request, asked_job(request))
    except SlurmgenError as error:
        return problem(error)
    return as_json({"logs": _named(logs_in(listing)), "metrics": _named(metrics_in(listing))})


def _named(files: list[Made]) -> list[dict[str, str]]:
    return [{"id": id_of(file.name), "name": visible(file.name)} for file in files]


def curves(request: Request) -> Response:
    """The curves in one of its files."""
    job = asked_job(request)
    try:
        path = known_file(request, job)
        if path is None:
            raise HTTPException(400, "Name a file of the job.")
        with connections_of(request).use(job.route) as transport:
            return as_json(_shown(read_curves(transport, path)))
    except SlurmgenError as error:
        return problem(error)


def _shown(curves: Curves) -> Curves:
    """The curves with names that a page can show; a job may choose any."""
    return structs.replace(curves, values={visible(name): column for name, column in curves.values.items()})
