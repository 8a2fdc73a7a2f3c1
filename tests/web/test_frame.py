"""The frame of every page, in Chromium."""

import pytest
from playwright.sync_api import Browser, expect

from tests.support.web import DESKTOP, PHONE, opened, served

A4 = (718, 1047)
"The pixels of a page with margins of 1 cm."


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
        opened(browser, f"{server.origin}/") as page,
    ):
        page.get_by_role("link", name="Linter").click()
        expect(page).to_have_title("Linter · slurmgen")


def test_the_theme_stays_as_chosen(browser: Browser, origin: str) -> None:
    with opened(browser, origin) as page:
        page.get_by_role("button", name="Switch between light and dark").click()
        chosen = page.locator("html").get_attribute("data-theme")
        page.reload()
        assert page.locator("html").get_attribute("data-theme") == chosen == "dark"


def test_a_page_is_printed_in_the_light_theme_and_without_what_is_pressed(
    browser: Browser, origin: str
) -> None:
    with opened(browser, origin, theme="dark") as page:
        page.get_by_role("button", name="Switch between light and dark").click()
        page.get_by_role("button", name="Switch between light and dark").click()
        assert page.locator("html").get_attribute("data-theme") == "dark"
        page.emulate_media(media="print")
        expect(page.locator("body")).to_have_css("color", "rgb(27, 36, 41)")
        expect(page.get_by_role("navigation", name="Main")).to_be_hidden()


def test_all_columns_of_the_sites_are_on_the_paper(browser: Browser, origin: str) -> None:
    with opened(browser, f"{origin}/sites", A4) as page:
        page.emulate_media(media="print")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        expect(page.locator(".scroll")).to_have_css("overflow-x", "visible")
