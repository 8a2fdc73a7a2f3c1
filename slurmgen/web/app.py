"""The page as an ASGI application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from slurmgen.errors import SlurmgenError
from slurmgen.web import generator, jobs, linter, sites
from slurmgen.web.access import Access
from slurmgen.web.jobs.connections import Connections
from slurmgen.web.limits import BodyLimit
from slurmgen.web.pages import page
from slurmgen.web.settings import Settings

_STATIC = Path(__file__).parent / "static"


def create_app(settings: Settings) -> Starlette:
    """The page. A public one has no routes to jobs."""
    routes: list[BaseRoute] = [
        Route("/healthz", _health),
        *generator.ROUTES,
        *linter.ROUTES,
        *sites.ROUTES,
        *(() if settings.public else jobs.ROUTES),
        Mount("/static", StaticFiles(directory=_STATIC)),
    ]
    app = Starlette(
        routes=[Mount(settings.base_path, routes=routes)] if settings.base_path else routes,
        middleware=[Middleware(Access, settings=settings), Middleware(BodyLimit)],
        exception_handlers={HTTPException: _failed, SlurmgenError: _refused, Exception: _bug},
        lifespan=_lifespan,
    )
    app.state.settings = settings
    app.state.connections = Connections()
    return app


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    """Close the connections to sites when the server ends."""
    yield
    await run_in_threadpool(app.state.connections.close)


async def _health(_request: Request) -> Response:
    """For a proxy or a container engine: the server answers."""
    return Response("ok\n", media_type="text/plain")


async def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    return page(request, "error.html", error.status_code, fact=error.detail, hint="")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, SlurmgenError)  # noqa: S101
    return page(request, "error.html", 422, fact=error.fact, hint=error.hint)


async def _bug(request: Request, _error: Exception) -> Response:
    fact = "This is a bug in slurmgen; the terminal of the server shows its traceback"
    return page(request, "error.html", 500, fact=fact, hint="Please report it.")
