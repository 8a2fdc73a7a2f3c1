"""The page of one job."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from slurmgen.web.jobs.records import job_of, record_of
from slurmgen.web.pages import page


def show(request: Request) -> Response:
    """The page itself."""
    key = request.path_params["key"]
    record = record_of(key)
    return page(request, "job.html", key=key, record=record, job=job_of(record))


ROUTES = (Route("/jobs/{key}", show),)
