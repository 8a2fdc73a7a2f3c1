"""Who may read the page: host, token and origin are checked first, and each reply is restricted.

Another web site that the user has open may send requests to this server, or point a host name of its own at
it. The token keeps out other users of the machine.
"""

from hmac import compare_digest
from secrets import token_urlsafe
from urllib.parse import urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from slurmgen.web.settings import Settings

_READING = {"GET", "HEAD"}
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
        scope["nonce"] = nonce = token_urlsafe(16)
        reply: ASGIApp = self._refusal(Request(scope)) or self.app
        await reply(scope, receive, _restricted(send, nonce))

    def _refusal(self, request: Request) -> Response | None:
        settings = self.settings
        host = request.headers.get("host", "")
        if settings.hosts and host not in settings.hosts:
            return _refused(f"This server does not answer for the host {host[:100]!r}.", 421)
        if request.method not in _READING and not _is_own_origin(request, host):
            return _refused("This request comes from another web site.")
        return None if settings.public else self._without_token(request)

    def _without_token(self, request: Request) -> Response | None:
        """Refuse a request without the token; store one in the address as a cookie, and remove it there."""
        settings = self.settings
        if compare_digest(request.cookies.get(settings.cookie, "").encode(), settings.token.encode()):
            return None
        given = request.query_params.get("token", "")
        if request.method != "GET" or not compare_digest(given.encode(), settings.token.encode()):
            return _refused(
                "Open the address that `slurmgen web` printed: it contains the token of this server."
            )
        rest = urlencode([pair for pair in request.query_params.multi_items() if pair[0] != "token"])
        reply = RedirectResponse(request.url.path + (f"?{rest}" if rest else ""), 303)
        reply.set_cookie(
            settings.cookie, settings.token, httponly=True, samesite="strict", path=settings.base_path or "/"
        )
        return reply


def _refused(text: str, status: int = 403) -> Response:
    return PlainTextResponse(f"{text}\n", status)


def _is_own_origin(request: Request, host: str) -> bool:
    """Whether a changing request comes from this page. Every browser sends Origin with it."""
    origin = request.headers.get("origin", "")
    return (
        origin.partition("://")[2] == host
        and request.headers.get("sec-fetch-site", "same-origin") == "same-origin"
    )


def _restricted(send: Send, nonce: str) -> Send:
    """Add the headers that limit what a browser does with a reply."""

    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            headers["Content-Security-Policy"] = _POLICY.format(nonce=nonce)
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return wrapped
