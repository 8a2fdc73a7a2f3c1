"""A server of the page on a free port of loopback, and a real browser."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread
from typing import Any, Literal

import uvicorn
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from slurmgen.web import Settings, create_app
from slurmgen.web.limits import Limits
from slurmgen.web.server import config, listen, local_settings

CHROMIUM = "/usr/bin/chromium"
DESKTOP, PHONE = (1280, 900), (390, 844)
PUBLIC = Limits(rate=1_000_000, seconds=60, concurrent=1000)
"Limits of a public server that no test reaches."
_SWITCHES = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


@dataclass(frozen=True)
class Served:
    """A running server: its settings with the token, and the status and the path of each of its replies."""

    origin: str
    "The address of its page, without a slash at the end."
    settings: Settings
    statuses: list[int]
    paths: list[str]

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.origin.split(":")[2].partition("/")[0])

    @property
    def entry(self) -> str:
        """The address that `slurmgen web` prints."""
        return f"{self.origin}/?token={self.settings.token}"


HOST = "127.0.0.1:8123"
OWN = {"origin": f"http://{HOST}"}
LOCAL = Settings(hosts=("127.0.0.1",))


@contextmanager
def local_client() -> Iterator[TestClient]:
    """A client with the cookie of a local server."""
    with TestClient(create_app(LOCAL), base_url=f"http://{HOST}", headers=OWN) as client:
        client.get("/", params={"token": LOCAL.token})
        yield client


@contextmanager
def public_client() -> Iterator[TestClient]:
    """A client of a public server."""
    settings = Settings(limits=PUBLIC)
    with TestClient(create_app(settings), base_url=f"http://{HOST}", headers=OWN) as client:
        yield client


@contextmanager
def served(
    *, port: int = 0, public: bool = False, base_path: str = "", limits: Limits = PUBLIC
) -> Iterator[Served]:
    """Serve the page in a thread of this process."""
    listener = listen("127.0.0.1", port)
    host = f"127.0.0.1:{listener.getsockname()[1]}"
    settings = Settings(limits=limits, base_path=base_path) if public else local_settings(base_path)
    statuses, paths, configured = list[int](), list[str](), config(settings)
    configured.app = _noting(configured.app, statuses, paths)
    server = uvicorn.Server(configured)
    thread = Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield Served(f"http://{host}{settings.base_path}", settings, statuses, paths)
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def _noting(app: Any, statuses: list[int], paths: list[str]) -> ASGIApp:
    """An application that notes the status and the path of each reply."""

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
                paths.append(scope["path"])
            await send(message)

        await app(scope, receive, noted)

    return noting


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_SWITCHES, timeout=180_000)
        yield browser
        browser.close()


@contextmanager
def opened(
    browser: Browser,
    address: str,
    size: tuple[int, int] = DESKTOP,
    theme: Literal["light", "dark"] = "light",
    *,
    may_fail: bool = False,
) -> Iterator[Page]:
    """A page in a fresh profile; unless it may fail, no script and no content policy reports an error."""
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=theme)
    context.set_default_timeout(60_000)
    page, faults = context.new_page(), list[str]()
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.goto(address)
    yield page
    context.close()
    assert may_fail or faults == [], faults


def faults(page: Page) -> list[str]:
    """The serious findings of axe, and whether the page is wider than its window."""
    found = Axe().run(page).response["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in serious] + ["wider than the window"] * wide


def faults_in_both_themes(page: Page) -> list[str]:
    """`faults`, in light and dark."""
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found += [f"{scheme}: {fault}" for fault in faults(page)]
    return found
