"""Parts of a page that are loaded after it: a site that is not reached spoils none of the others."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from slurmgen.errors import SlurmgenError
from slurmgen.web.pages import page

Handler = Callable[[Request], Response]


def part(handler: Handler) -> Handler:
    """A handler whose errors are shown in its place on the page."""

    def handled(request: Request) -> Response:
        try:
            return handler(request)
        except SlurmgenError as error:
            return page(request, "job_problem.html", fact=error.fact, hint=error.hint)

    return handled
