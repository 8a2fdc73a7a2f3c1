"""The addresses of this part of the page."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from slurmgen.web.pages import page


def show(request: Request) -> Response:
    """The page itself."""
    return page(request, "generator.html")


ROUTES = (Route("/", show),)
