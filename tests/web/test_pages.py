"""What holds for every page, in Chromium."""

import pytest
from playwright.sync_api import Browser, expect

from tests.support.web import DESKTOP, PHONE, faults_in_both_themes, opened, served

COMPARED = "/sites/compare?a=lumi-g&b=frontier"
PATHS = ("/", "/lint", "/rules", "/rules/SG101", "/sites", "/sites/delta", COMPARED, "/jobs")


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_no_page_excludes_users_or_needs_another_server(browser: Browser, size: tuple[int, int]) -> None:
    """Neither those of a screen reader, nor those of a phone."""
    found, asked = list[str](), list[str]()
    with served() as server, opened(browser, server.entry, size) as page:
        page.on("request", lambda request: asked.append(request.url))
        for path in PATHS:
            page.goto(server.origin + path)
            found += [f"{path}: {fault}" for fault in faults_in_both_themes(page)]
    assert found == []
    assert [url for url in asked if not url.startswith((server.origin, "data:", "blob:"))] == []


def test_a_server_that_ended_and_began_again_is_reported(browser: Browser) -> None:
    with opened(browser, "about:blank", may_fail=True) as page:
        failure, gpus = page.locator("#failure"), page.get_by_label("GPUs in total")
        with served() as server:
            page.goto(server.entry)
        gpus.fill("2")
        expect(failure).to_have_text("The server does not answer. Is it still running?")
        with served(port=server.port):
            gpus.fill("3")
            expect(failure).to_contain_text("Open the address that `slurmgen web` printed")
            expect(page.locator("#refusal")).to_contain_text("Open the address that `slurmgen web` printed")
