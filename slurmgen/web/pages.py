"""Render a page, with the settings of the server."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from secrets import token_urlsafe
from typing import Any
from urllib.parse import parse_qsl

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from slurmgen.text import visible
from slurmgen.web.limits import Limits


@dataclass(frozen=True)
class Settings:
    """What differs between servers."""

    limits: Limits | None = None
    "What one client may use of a public server; None for a local one."
    hosts: tuple[str, ...] = ()
    """Names of the server, such as `127.0.0.1`; none: any, for a public one. Any port is accepted, because
    ssh and editors forward another one."""
    base_path: str = ""
    """The path before all addresses, such as `/slurmgen`, behind a proxy. The last part of a local one is
    secret: a browser sends the cookie to every port of a host, but only below this path."""
    token: str = field(default_factory=lambda: token_urlsafe(32), repr=False)
    "A local server requires it once, in the first address; then a cookie has it."

    @property
    def public(self) -> bool:
        """Whether anyone may use the server. It has no jobs, no project and no login."""
        return self.limits is not None

    def url(self, path: str) -> str:
        """The address of a page on this server, such as `/lint`."""
        return f"{self.base_path}{path}"


PAGES = Path(__file__).parent / "pages"
_MAX_FIELDS = 200


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader([PAGES, PAGES.parent / "static"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters["visible"] = visible
    return environment


def settings_of(request: Request) -> Settings:
    """The settings of the server that answers."""
    settings: Settings = request.app.state.settings
    return settings


def page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page or a part of one, from a template of `pages/`, with `url`, `settings` and `nonce`."""
    settings = settings_of(request)
    common = {
        "url": settings.url,
        "settings": settings,
        "nonce": request.scope["nonce"],
        "path": request.url.path.removeprefix(settings.base_path),
    }
    return bare_page(template, status, **(common | values))


def bare_page(template: str, status: int, **values: Any) -> HTMLResponse:
    """A page from a template of `pages/`, with these values alone."""
    return HTMLResponse(_templates().get_template(template).render(values), status)


def with_fields(
    answer: Callable[[Request, dict[str, str]], Response],
) -> Callable[[Request], Awaitable[Response]]:
    """A handler of a form, which is answered in a worker thread with its fields."""

    async def handled(request: Request) -> Response:
        return await run_in_threadpool(answer, request, await fields(request))

    return handled


async def fields(request: Request) -> dict[str, str]:
    """The fields of a form that was sent; the last of several with the same name.

    Raises:
        HTTPException: the body is too large, has too many fields, or is not UTF-8.
    """
    body = await request.body()
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict")
    except ValueError as error:
        raise HTTPException(400, "The form is not valid.") from error
    return dict(pairs)
