"""Other web pages that the user has open, in Chromium: another site, and another port of this machine.

Cookies ignore the port: a browser sends them to all servers of this machine, if the path is the same. These
pages know the secret path, except where a test says otherwise.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from slurmgen.web.access import COOKIE
from tests.support.twins import eventually
from tests.support.web import Served, served

OTHERS = {"another site": "localhost", "another port": "127.0.0.1"}
READS = """async ([url, mode, credentials]) => {
  try { return await (await fetch(url, {mode, credentials})).text(); } catch { return "refused"; }
}"""
SENDS = """async ([url, body]) => {
  try { await fetch(url, {method: "POST", mode: "no-cors", credentials: "include", body}); } catch {}
}"""
LOADS = """([kind, url]) => new Promise((done) => {
  const element = document.createElement(kind);
  element.onload = () => done(kind === "iframe" && !element.contentDocument ? "refused" : "loaded");
  element.onerror = () => done("refused");
  element.src = url;
  document.body.append(element);
})"""
SUBMITS = """(url) => new Promise((done) => {
  const form = "<form method=post target=reply><input name=gpus value=1></form>";
  document.body.innerHTML = `<iframe name=reply></iframe>${form}`;
  frames.reply.frameElement.onload = () => done();
  document.forms[0].action = url;
  document.forms[0].submit();
})"""


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("set-cookie", f"{COOKIE}=evil; path=/")
        self.end_headers()
        self.wfile.write(
            b"<!doctype html><title>evil</title><body>" + self.headers.get("cookie", "").encode()
        )

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def evil() -> Iterator[int]:
    """The port of a server of an attacker, whose page shows the cookie that it receives."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        Thread(target=server.serve_forever).start()
        yield server.server_port
        server.shutdown()


@contextmanager
def visited(browser: Browser, server: Served) -> Iterator[BrowserContext]:
    """A profile whose user has the page open."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.entry)
    expect(page).to_have_title("Generator · slurmgen")
    eventually(lambda: any(path.endswith("/icon.svg") for path in server.paths))  # after the page is loaded
    yield context
    context.close()


@pytest.fixture(params=sorted(OTHERS))
def attacked(request: pytest.FixtureRequest, browser: Browser, evil: int) -> Iterator[tuple[Served, Page]]:
    """The server, and the attacker's page in the profile of its user."""
    with served() as server, visited(browser, server) as context:
        page = context.new_page()
        page.goto(f"http://{OTHERS[request.param]}:{evil}/")
        server.statuses.clear()
        yield server, page


def test_it_reads_embeds_and_sends_nothing(attacked: tuple[Served, Page]) -> None:
    server, page = attacked
    for address in (server.entry, f"{server.origin}/jobs"):
        for credentials in ("include", "omit"):
            assert page.evaluate(READS, [address, "cors", credentials]) == "refused"
            assert page.evaluate(READS, [address, "no-cors", credentials]) in {"", "refused"}
    for kind, path in (("iframe", "/jobs"), ("script", "/static/theme.js"), ("img", "/static/icon.svg")):
        asked = len(server.statuses)
        assert page.evaluate(LOADS, [kind, server.origin + path]) == "refused"
        assert len(server.statuses) > asked
    page.evaluate(SENDS, [f"{server.origin}/generator", "gpus=1"])
    page.evaluate(SUBMITS, f"{server.origin}/generator")
    assert server.paths.count(f"{server.settings.base_path}/generator") == 2
    assert set(server.statuses) == {403}


def test_its_link_changes_nothing(attacked: tuple[Served, Page]) -> None:
    server, page = attacked
    with page.expect_navigation():
        page.evaluate("(url) => { location.href = url; }", f"{server.origin}/?token=wrong")
    assert set(server.statuses) == {403}
    user = page.context.pages[0]
    user.reload()
    expect(user).to_have_title("Generator · slurmgen")


def test_the_printed_address_works_as_a_link(browser: Browser, evil: int) -> None:
    """Such as in a terminal that is a web page."""
    context = browser.new_context()
    with served() as server:
        page = context.new_page()
        page.goto(f"http://localhost:{evil}/")
        page.evaluate("(url) => { location.href = url; }", server.entry)
        expect(page).to_have_title("Generator · slurmgen")
        assert "token" not in page.url
    context.close()


def test_another_port_does_not_receive_the_cookie_without_the_secret_path(
    browser: Browser, evil: int
) -> None:
    with served() as server, visited(browser, server) as context:
        page, secret = context.new_page(), server.settings.base_path.strip("/")
        for path in ("", "jobs", secret[:-1], f"{secret[:-1]}x/"):
            page.goto(f"http://127.0.0.1:{evil}/{path}")
            page.reload()
            expect(page.locator("body")).to_have_text(f"{COOKIE}=evil")
        page.goto(f"http://127.0.0.1:{evil}/{secret}/")
        expect(page.locator("body")).to_contain_text(server.settings.token)  # this test can fail
