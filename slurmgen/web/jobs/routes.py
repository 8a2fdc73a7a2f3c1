"""The addresses of this part of the page."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from slurmgen.jobs.ledger import Ledger
from slurmgen.web.jobs import one_job
from slurmgen.web.jobs.records import key_of
from slurmgen.web.pages import page


def show(request: Request) -> Response:
    """The table."""
    rows = [(key_of(record), record) for record in reversed(Ledger().recent(200))]
    return page(request, "jobs.html", rows=rows)


ROUTES = (Route("/jobs", show), *one_job.ROUTES)
