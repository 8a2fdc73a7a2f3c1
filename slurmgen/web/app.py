"""The page as an ASGI application."""

from collections.abc import Sequence
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from slurmgen.errors import SlurmgenError
from slurmgen.web import generator, linter, sites
from slurmgen.web.access import Access
from slurmgen.web.limits import MAX_BODY, InTime, RateLimit
from slurmgen.web.pages import page
from slurmgen.web.settings import Settings

_STATIC = Path(__file__).parent / "static"


def create_app(settings: Settings) -> ASGIApp:
    """The page. A public one has no jobs, and imports nothing that reads them or logs in."""
    app: ASGIApp = _pages(settings)
    if settings.limits:
        app = InTime(app, settings.limits)
    app = RequestBodyLimitMiddleware(app, MAX_BODY)
    if settings.limits:
        app = RateLimit(app, settings.limits.rate)
    return Access(app, settings)


def _pages(settings: Settings) -> Starlette:
    routes: list[BaseRoute] = [
        Route("/healthz", _health),
        *generator.ROUTES,
        *linter.ROUTES,
        *sites.ROUTES,
        *(() if settings.public else _jobs()),
        Mount("/static", StaticFiles(directory=_STATIC)),
    ]
    app = Starlette(
        routes=[Mount(settings.base_path, routes=routes)] if settings.base_path else routes,
        exception_handlers={
            HTTPException: _failed,
            SlurmgenError: _refused,
            ClientDisconnect: _left,
            Exception: _bug,
        },
    )
    app.state.settings = settings
    return app


def _jobs() -> Sequence[BaseRoute]:
    from slurmgen.web import jobs

    return jobs.ROUTES


async def _health(_request: Request) -> Response:
    """For a proxy or a container engine: the server answers."""
    return Response("ok\n", media_type="text/plain")


async def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    return page(request, "error.html", error.status_code, fact=error.detail, hint="")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, SlurmgenError)  # noqa: S101
    return page(request, "error.html", 422, fact=error.fact, hint=error.hint)


async def _left(_request: Request, _error: Exception) -> Response:
    return Response(status_code=400)  # nobody receives it


async def _bug(request: Request, _error: Exception) -> Response:
    fact = "This is a bug in slurmgen; the terminal of the server shows its traceback"
    return page(request, "error.html", 500, fact=fact, hint="Please report it.")
