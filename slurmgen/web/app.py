"""The page as an ASGI application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, ExceptionHandler

from slurmgen.errors import SlurmgenError
from slurmgen.web import generator, linter, sites
from slurmgen.web.access import Access
from slurmgen.web.limits import MAX_BODY, InTime, RateLimit
from slurmgen.web.pages import Settings, page

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
        Mount("/static", StaticFiles(directory=_STATIC)),
    ]
    app = Starlette(exception_handlers=_HANDLERS, lifespan=None if settings.public else _lifespan)
    app.state.settings = settings
    if not settings.public:
        _add_jobs(app, routes)
    app.router.routes += [Mount(settings.base_path, routes=routes)] if settings.base_path else routes
    return app


def _add_jobs(app: Starlette, added: list[BaseRoute]) -> None:
    from slurmgen.web.jobs import routes
    from slurmgen.web.jobs.poller import State

    app.state.jobs = State()
    added += routes.ROUTES


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    """Read the ledger before the first page needs it, and at the end close the connections to sites."""
    app.state.jobs.begin()
    yield
    await run_in_threadpool(app.state.jobs.end)


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
    return Response(status_code=400)  # the client has gone


async def _bug(request: Request, _error: Exception) -> Response:
    fact = "This is a bug in slurmgen; the terminal of the server shows its traceback"
    return page(request, "error.html", 500, fact=fact, hint="Please report it.")


_HANDLERS: dict[Any, ExceptionHandler] = {
    HTTPException: _failed,
    SlurmgenError: _refused,
    ClientDisconnect: _left,
    Exception: _bug,
}
