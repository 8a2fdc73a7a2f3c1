"""The page of one job in Chromium, beside real jobs of a twin."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from slurmgen.jobs.ledger import Record
from slurmgen.web.jobs import log_stream
from tests.support.stepping import Stepping, stepping, submitted
from tests.support.twins import Testbed
from tests.support.web import DESKTOP, PHONE, Served, opened, served

FAILS = "import sys\nprint('loading')\nimport einops_of_nobody\n"
SWEPT = """import json, os, pathlib, sys
lr = float(sys.argv[1].split("=")[1])
pathlib.Path(os.environ["RUN_DIR"], "metrics.jsonl").write_text(json.dumps({"epoch": 1, "loss": lr * 2}))
"""
HOSTILE = (
    b"<img src=x onerror=alert(1)><script>alert(2)</script>\n"
    b"\x1b]0;title\x07\x1b[2J\x1b[10;10Hmoved\n"
    + "left\u202eright\u2066\n".encode()
    + b"\xff\xfe bytes\n\x1b[1;31mred\x1b[0m plain\n"
    b"10 %\r50 %\r100 %\n" + b"x" * 1_000_000 + b"END"
)


@pytest.fixture
def project(testbed: Testbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, in which the server is started."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_STATE_HOME", testbed.environ["XDG_STATE_HOME"])
    return folder


@pytest.fixture
def job(testbed: Testbed, project: Path) -> Iterator[Stepping]:
    running = stepping(testbed, project, "train")
    yield running
    running.end()


@pytest.fixture
def server(project: Path) -> Iterator[Served]:
    with served() as running:
        yield running


def address(server: Served, record: Record, query: str = "") -> str:
    return f"{server.origin}/jobs/{quote(record.key)}?token={server.settings.token}{query}"


def lines(page: Page) -> list[str]:
    return page.locator("#log-lines > div:not(.rest)").all_text_contents()


def fits(page: Page) -> bool:
    """Whether the page has no horizontal scroll."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def faults(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [one["id"] + ": " + one["nodes"][0]["html"] for one in found if one["impact"] in ("serious", "critical")]


def test_a_running_job_shows_its_log_and_its_curves_as_they_grow(
    browser: Browser, server: Served, job: Stepping
) -> None:
    job.step(1, "epoch 1\nof many")
    with opened(browser, address(server, job.record)) as page:
        expect(page.locator("#state .badge")).to_have_text("RUNNING")
        expect(page.locator("#log-lines")).to_contain_text("of many")
        for number in (2, 3):
            job.step(number, f"epoch {number}")
            expect(page.locator("#log-lines")).to_contain_text(f"epoch {number}")
        assert lines(page)[-4:] == ["epoch 1", "of many", "epoch 2", "epoch 3"]

        expect(page.locator("#charts canvas").first).to_be_visible(timeout=60_000)
        page.get_by_text("Values as a table").click()
        rows = page.locator("#curves-values tbody tr")
        expect(rows).to_have_count(3)
        shown = [[float(cell) for cell in row.locator("td").all_text_contents()] for row in rows.all()]
        assert shown == [list(row.values()) for row in job.metrics()]
        page.get_by_label("log scale").check()
        expect(page.get_by_role("img", name="Accuracy over epoch")).to_be_visible()
        assert faults(page) == []

        job.end()
        expect(page.locator("#state .badge")).to_have_text("COMPLETED")
        expect(page.locator("#log-state")).to_contain_text("COMPLETED")
