"""What holds for every page, in Chromium."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect

from tests.support.web import DESKTOP, PHONE, opened, served

COMPARED = "/sites/compare?a=daic&b=lumi-g"
PATHS = ("/", "/lint", "/rules", "/rules/SG101", "/sites", "/sites/daic", COMPARED, "/jobs")


@contextmanager
def free(browser: Browser) -> Iterator[Page]:
    """A page that may report errors, which a request that fails is."""
    context = browser.new_context()
    yield context.new_page()
    context.close()


def _serious(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {[node['target'] for node in each['nodes']]}"
        for each in found
        if each["impact"] in {"serious", "critical"}
    ]


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_excludes_users(browser: Browser, size: tuple[int, int], theme: str) -> None:
    """Neither those of a screen reader, nor those of a phone."""
    faults = list[str]()
    with served() as server, opened(browser, server.entry, size, theme) as page:  # type: ignore[arg-type]
        for path in PATHS:
            page.goto(server.origin + path)
            faults += [f"{path}: {fault}" for fault in _serious(page)]
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                faults.append(f"{path}: wider than the screen")
    assert faults == []


def test_no_page_needs_another_server(browser: Browser) -> None:
    elsewhere = []

    def refuse(route: Route) -> None:
        elsewhere.append(route.request.url)
        route.abort()

    with served() as server, opened(browser, server.entry) as page:
        page.context.route(lambda url: not url.startswith((server.origin, "data:")), refuse)
        for path in PATHS:
            page.goto(server.origin + path, wait_until="networkidle")
    assert elsewhere == []


def test_a_server_that_ended_and_began_again_is_reported(browser: Browser) -> None:
    with free(browser) as page:
        failure, gpus = page.locator("#failure"), page.get_by_label("GPUs in total")
        with served() as server:
            page.goto(server.entry)
        gpus.fill("2")
        expect(failure).to_have_text("The server does not answer. Is it still running?")
        with served(port=server.port):
            gpus.fill("3")
            expect(failure).to_contain_text("Open the address that `slurmgen web` printed")
            expect(page.locator("#refusal")).to_contain_text("Open the address that `slurmgen web` printed")
