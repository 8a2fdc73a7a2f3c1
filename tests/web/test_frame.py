"""The frame of every page, in Chromium."""

import pytest
from playwright.sync_api import Browser, expect

from tests.support.web import DESKTOP, PHONE, opened, served


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_the_navigation_leads_to_every_part(browser: Browser, size: tuple[int, int]) -> None:
    with served() as server, opened(browser, server.entry, size) as page:
        for name in ["Linter", "Sites", "Jobs", "Generator"]:
            page.get_by_role("navigation").get_by_role("link", name=name).click()
            expect(page).to_have_title(f"{name} · slurmgen")
        assert "token" not in page.url


def test_a_page_works_below_a_base_path(browser: Browser) -> None:
    with (
        served(public=True, base_path="/tools/slurmgen") as server,
        opened(browser, f"{server.origin}/tools/slurmgen/") as page,
    ):
        page.get_by_role("link", name="Linter").click()
        expect(page).to_have_title("Linter · slurmgen")


def test_the_theme_stays_as_chosen(browser: Browser) -> None:
    with served(public=True) as server, opened(browser, server.origin) as page:
        page.get_by_role("button", name="Switch between light and dark").click()
        chosen = page.locator("html").get_attribute("data-theme")
        page.reload()
        assert page.locator("html").get_attribute("data-theme") == chosen == "dark"
