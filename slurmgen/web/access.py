"""Who may read the page: host, token and origin are checked first, and each reply is restricted.

Another web site that the user has open may send requests to this server, or point a host name of its own at
it. The token keeps out other users of the machine, also those whose pages the user opens on another port.
"""

import re
from collections.abc import Iterator
from hmac import compare_digest
from html import escape
from secrets import token_urlsafe
from urllib.parse import quote, urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from slurmgen.lint.reader.parse import ASKS_BASH
from slurmgen.web.pages import Settings, bare_page

COOKIE = "slurmgen"
_READING = {"GET", "HEAD"}
_OWN = {"same-origin", "none"}
"Values of Sec-Fetch-Site: the page itself, and an address that the user typed."
_PORT = re.compile(r":\d*$")
_ELSEWHERE = "This request comes from another web site."
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


class Access:
    """Middleware that refuses what does not come from the page itself."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        ASKS_BASH.set(False)
        scope["nonce"] = nonce = token_urlsafe(16)
        reply: ASGIApp = self._refusal(Request(scope)) or self.app
        await reply(scope, receive, _restricted(send, nonce))

    def _refusal(self, request: Request) -> Response | None:
        host = request.headers.get("host", "")
        if self.settings.hosts and _PORT.sub("", host) not in self.settings.hosts:
            return _refused(f"This server does not answer for the host {host[:100]!r}.", 421)
        if self.settings.public:
            return None if _is_from_page(request) or _is_link(request) else _refused(_ELSEWHERE)
        return self._refusal_to_others(request, host)

    def _refusal_to_others(self, request: Request, host: str) -> Response | None:
        """Refuse all but the user; store a token in the address as a cookie, and remove it there."""
        enters = request.method == "GET" and self._is_token(request.query_params.get("token", ""))
        is_own = _is_from_page(request) or (enters and _is_link(request))
        if not (is_own and _has_own_origin(request, host)):
            return _refused(_ELSEWHERE)
        if enters:
            return self._with_cookie(request)
        if any(map(self._is_token, _cookies(request))):
            return None
        if "text/html" in request.headers.get("accept", ""):
            return bare_page("no_token.html", 403, nonce=request.scope["nonce"])
        return _refused("Open the address that `slurmgen web` printed: it contains the token of this server.")

    def _is_token(self, given: str) -> bool:
        return compare_digest(given.encode(errors="replace"), self.settings.token.encode())

    def _with_cookie(self, request: Request) -> Response:
        reply, path = _moved(request, _without(request, "token")), self.settings.base_path or "/"
        reply.set_cookie(COOKIE, self.settings.token, httponly=True, samesite="strict", path=path)
        return reply


def _without(request: Request, parameter: str) -> str:
    """The address on this server, without a parameter. `//evil.example` would be another server."""
    rest = urlencode([pair for pair in request.query_params.multi_items() if pair[0] != parameter])
    return quote("/" + request.url.path.lstrip("/\\"), safe="/%") + (f"?{rest}" if rest else "")


def _moved(request: Request, address: str) -> Response:
    """Lead the browser to an address.

    A browser sends no strict cookie after a link from elsewhere, such as a web terminal, not even to where
    that redirects. A page that leads to the address has this origin, so the cookie is sent.
    """
    if _is_from_page(request):
        return RedirectResponse(address, 303)
    return HTMLResponse(f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(address)}">')


def _refused(text: str, status: int = 403) -> Response:
    return PlainTextResponse(f"{text}\n", status)


def _cookies(request: Request) -> Iterator[str]:
    """The values of the cookie. A server on another port may have added one of the same name."""
    for pair in request.headers.get("cookie", "").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == COOKIE:
            yield value


def _is_from_page(request: Request) -> bool:
    """Whether this page made the request, or the user typed its address. A program sends no such header."""
    return request.headers.get("sec-fetch-site", "none") in _OWN


def _is_link(request: Request) -> bool:
    """Whether the user followed a link."""
    headers = request.headers
    navigates = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == ("navigate", "document")
    return request.method in _READING and navigates


def _has_own_origin(request: Request, host: str) -> bool:
    """Whether a changing request names this page. Every browser sends Origin with it."""
    origin = request.headers.get("origin", "")
    return request.method in _READING or origin == f"{request.url.scheme}://{host}"


def _restricted(send: Send, nonce: str) -> Send:
    """Add the headers that limit what a browser does with a reply. A file is asked for again each time."""

    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            headers["Content-Security-Policy"] = _POLICY.format(nonce=nonce)
            headers.setdefault("Cache-Control", "no-cache" if "etag" in headers else "no-store")
        await send(message)

    return wrapped
