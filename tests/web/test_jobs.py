"""The table of jobs: what it shows of the ledger, how it is searched, and what it is sent."""

import re
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest
from axe_playwright_python.sync_playwright import Axe
from msgspec import json, structs
from playwright.sync_api import Browser, Page, expect
from starlette.testclient import TestClient

from slurmgen.errors import ConnectionFailed
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.ledger.races import Race, Races
from slurmgen.slurm.replies import JobState
from slurmgen.status.report import Report
from slurmgen.web.jobs.board import Board, Problem
from slurmgen.web.jobs.rows import Known, View, job_of, job_row, shown
from tests.support.web import DESKTOP, PHONE, Served, opened, served

HOSTILE = "<script>alert(1)</script>\x1b[2J\u202etxt"


def record(number: int, state: str = "COMPLETED", **fields: str) -> Record:
    """A job that has ended in a state; one that has not ended without a state."""
    final = [JobState(id=str(number), state=state, elapsed="00:20:00", time_limit="01:00:00")]
    return structs.replace(
        Record(
            id=str(number),
            site="olivia",
            via="ssh",
            host="127.0.0.1:1",
            name=f"train-{number}",
            folder=f"/home/user/slurmgen/runs/{number}",
            output="train-%j.out",
            submitted=f"2026-01-01T10:{number % 60:02}:00+00:00",
            key=f"20260101-100000-{number:08x}",
            final=json.encode(final).decode() if state else "",
        ),
        **fields,
    )


def names(page: str) -> list[str]:
    """The names of the jobs in the table, in order."""
    return [part.partition("</a>")[0].partition(">")[2] for part in page.split('class="name"')[1:]]


def test_without_a_job_the_page_says_how_to_submit_one(user: TestClient) -> None:
    page = user.get("/jobs").text
    assert "No job was submitted from this machine yet" in page
    assert "slurmgen submit" in page


def test_the_table_has_the_jobs_of_all_sites_the_newest_first(user: TestClient, ledger: Ledger) -> None:
    ledger.settle_all([record(1), record(2, site="daic"), record(3, "FAILED")])
    page = user.get("/jobs").text
    assert names(page) == ["train-3", "train-2", "train-1"]
    assert "00:20:00" in page
    assert "/ 01:00:00" in page


def test_a_job_that_failed_has_the_reason_of_status(user: TestClient, ledger: Ledger) -> None:
    ledger.settle(record(1, "TIMEOUT"))
    assert "time limit" in user.get("/jobs").text


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=train-1", ["train-1"]),
        ("q=DAIC", ["train-2"]),
        ("q=failed", ["train-3"]),
        ("q=timeout+olivia", []),
        ("site=daic", ["train-2"]),
        ("kind=completed", ["train-2", "train-1"]),
        ("sort=name", ["train-1", "train-2", "train-3"]),
        ("sort=-name", ["train-3", "train-2", "train-1"]),
        ("sort=nothing&kind=nothing&page=99999", ["train-3", "train-2", "train-1"]),
        ("page=-1&q=%00", []),
    ],
)
def test_a_search_or_an_order_is_a_part_of_the_address(
    user: TestClient, ledger: Ledger, query: str, found: list[str]
) -> None:
    ledger.settle_all([record(1), record(2, site="daic"), record(3, "FAILED")])
    reply = user.get(f"/jobs?{query}")
    assert reply.status_code == 200
    assert names(reply.text) == found


def test_of_jobs_of_the_same_second_the_last_is_first(user: TestClient, ledger: Ledger) -> None:
    ledger.settle_all([record(number, submitted="2026-01-01T10:00:00+00:00") for number in (1, 2)])
    assert names(user.get("/jobs").text) == ["train-2", "train-1"]


def test_many_jobs_take_several_pages(user: TestClient, ledger: Ledger) -> None:
    ledger.settle_all([record(number, submitted=f"2026-01-01T{number:05}") for number in range(10_000)])
    first, last = user.get("/jobs").text, user.get("/jobs?page=50").text
    assert len(names(first)) == len(names(last)) == 200
    assert "200 of 10,000" in first
    assert (names(first)[0], names(last)[-1]) == ("train-9999", "train-0")


def test_the_jobs_of_a_group_are_one_row_that_opens(user: TestClient, ledger: Ledger) -> None:
    first = record(1)
    ledger.settle_all([structs.replace(one, part_of=first.key) for one in (first, record(2), record(3))])
    closed, open_ = user.get("/jobs").text, user.get(f"/jobs?open={first.key}").text
    assert "3 completed" in closed
    assert names(closed) == ["train-1"]
    assert names(open_) == ["train-1", "train-1", "train-2", "train-3"]


def test_the_row_of_a_race_is_that_of_the_job_that_won(user: TestClient, ledger: Ledger) -> None:
    lost, won = record(1, "CANCELLED"), record(2, site="daic")
    race = Race(won.key, "command", chosen=won.key)
    Races().enter(race, [structs.replace(one, part_of=race.key) for one in (lost, won)])
    page = user.get("/jobs").text
    assert names(page) == ["train-2"]
    assert ">completed</span>" in page
    assert "1 cancelled, 1 completed" in page


def test_running_jobs_and_those_that_ended_are_sorted_by_the_time_that_they_ran() -> None:
    elapsed = {1: ("COMPLETED", "00:10:00"), 2: ("RUNNING", "00:20:00"), 3: ("COMPLETED", "00:30:00")}
    states = {
        number: JobState(id=str(number), state=state, elapsed=ran) for number, (state, ran) in elapsed.items()
    }
    reports = [
        Report(job=job_of(record(number)), state=state.state, states=(state,))
        for number, state in states.items()
    ]
    rows = [job_row(Known(report), 1000.0, {}, "") for report in reports]
    assert [row.number for row in shown(rows, View(sort="time"), 1000.0).rows] == ["1", "2", "3"]
    assert [row.number for row in shown(rows, View(sort="time"), 2000.0).rows] == ["1", "3", "2"]


def test_text_from_a_cluster_is_shown_and_never_obeyed(user: TestClient, ledger: Ledger) -> None:
    ledger.settle(record(1, name=HOSTILE, site=HOSTILE, output=HOSTILE, folder=HOSTILE))
    ledger.settle(structs.replace(record(2), final="", state="pending", command=HOSTILE, directory=HOSTILE))
    for page in (user.get("/jobs").text, user.get("/jobs", params={"q": HOSTILE, "site": HOSTILE}).text):
        assert "<script>alert" not in page
        assert "\x1b" not in page
    assert "&lt;script&gt;alert(1)" in user.get("/jobs").text


@pytest.mark.parametrize("key", ["1", "olivia:2", "%2e%2e%2fetc", ":1", "x" * 5000])
def test_only_a_recorded_job_has_a_page(user: TestClient, ledger: Ledger, key: str) -> None:
    ledger.settle(record(1))
    assert user.get(f"/jobs/{key}").status_code == 404


def test_an_old_entry_without_a_key_has_a_page(user: TestClient, ledger: Ledger) -> None:
    ledger.add(record(1, key=""))
    assert "/jobs/olivia%3A1" in user.get("/jobs").text
    assert user.get("/jobs/olivia%3A1").status_code == 200


def test_a_site_that_is_not_reached_is_named_with_the_reason(
    page: Page, server: Served, ledger: Ledger
) -> None:
    ledger.settle_all([record(1, ""), record(2)])
    page.goto(f"{server.origin}/jobs")
    expect(page.locator("#problems")).to_contain_text("olivia: state not known")
    page.get_by_role("button", name="Try again").press("Enter")
    expect(page.get_by_role("button", name="Try again")).to_be_focused()
    expect(page.locator("#rows tr")).to_have_count(2)


def test_a_job_of_another_terminal_appears_in_both_tabs(page: Page, server: Served, ledger: Ledger) -> None:
    ledger.settle(record(1))
    tabs = [page, page.context.new_page()]
    for tab in tabs:
        tab.goto(f"{server.origin}/jobs")
    ledger.settle(record(2))
    for tab in tabs:
        expect(tab.get_by_role("link", name="train-2")).to_be_visible()


def test_a_state_above_the_table_shows_only_its_jobs(page: Page, server: Served, ledger: Ledger) -> None:
    ledger.settle_all([record(1), record(2, "")])
    page.goto(f"{server.origin}/jobs")
    expect(page.locator("#rows tr")).to_have_count(2)
    page.get_by_role("radio", name="Completed").check()
    expect(page.locator("#rows .name")).to_have_text(["train-1"])
    expect(page).to_have_url(re.compile("kind=completed"))


def test_a_table_that_is_read_again_stays_where_the_user_scrolled(
    page: Page, server: Served, ledger: Ledger
) -> None:
    ledger.settle_all([record(number) for number in range(1, 200)])
    page.goto(f"{server.origin}/jobs")
    page.locator("#sort-time").click()
    expect(page).to_have_url(re.compile("sort=time"))
    page.evaluate("scrollTo(0, 2000)")
    ledger.settle(record(200))
    expect(page.locator("#kind-all + span b")).to_have_text("200")
    assert page.evaluate("scrollY") == 2000


def test_the_keys_move_between_jobs_and_open_one(page: Page, server: Served, ledger: Ledger) -> None:
    ledger.settle_all([record(1), record(2)])
    page.goto(f"{server.origin}/jobs")
    for key, name in [("j", "train-2"), ("ArrowDown", "train-1"), ("k", "train-2")]:
        page.keyboard.press(key)
        expect(page.get_by_role("link", name=name)).to_be_focused()
    page.keyboard.press("/")
    page.keyboard.type("train-1")
    expect(page.locator("#rows tr")).to_have_count(1)
    page.keyboard.press("Tab")
    page.get_by_role("link", name="train-1").press("Enter")
    expect(page).to_have_url(f"{server.origin}/jobs/{record(1).key}")


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_the_table_is_accessible_and_fits(browser: Browser, ledger: Ledger, size: tuple[int, int]) -> None:
    ledger.settle_all([record(number, state) for number, state in enumerate(["FAILED", "", "CANCELLED"])])
    with served() as server, opened(browser, server.entry, size) as page:
        page.goto(f"{server.origin}/jobs")
        assert [one["id"] for one in Axe().run(page).response["violations"]] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_the_table_says_that_the_server_has_ended_and_that_a_new_one_has_a_new_address(
    browser: Browser, ledger: Ledger
) -> None:
    ledger.settle(record(1))
    first = ExitStack()
    server = first.enter_context(served())
    with first, opened(browser, server.entry, may_fail=True) as page:
        page.goto(f"{server.origin}/jobs")
        expect(page.locator("#live")).to_have_text("live")
        first.close()
        expect(page.locator("#live")).to_contain_text("connection lost")
        with served(port=server.port):
            expect(page.locator("#live")).to_contain_text("Open the new address", timeout=60_000)


def test_a_dialog_that_gets_no_reply_says_so_and_closes_with_a_button_and_with_escape(
    browser: Browser, ledger: Ledger
) -> None:
    ledger.settle(record(1, ""))
    server = ExitStack()
    with opened(browser, server.enter_context(served()).entry, may_fail=True) as page, server:
        page.goto(page.url + "jobs")
        cancel, dialog = page.get_by_role("button", name="Cancel 1"), page.get_by_role("dialog")
        cancel.click()
        expect(dialog).to_contain_text("Cancel job 1 (train-1)?")
        server.close()
        dialog.get_by_role("button", name="Cancel the job").click()
        expect(dialog.get_by_role("alert")).to_contain_text("does not reply")
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        cancel.click()
        expect(dialog.get_by_role("alert")).to_contain_text("does not reply")
        dialog.get_by_role("button", name="Close", exact=True).click()
        expect(cancel).to_be_focused()


def test_only_the_jobs_of_the_row_are_offered_to_be_cancelled(user: TestClient, ledger: Ledger) -> None:
    first = record(1, "")
    jobs = [structs.replace(one, part_of=first.key) for one in (first, record(2, ""), record(3, ""))]
    ledger.settle_all(jobs)
    group = user.get(f"/jobs/{first.key}/cancel?whole=1").text
    assert "Cancel 3 jobs of train-1?" in group
    assert "Cancel job 1 (train-1)?" in user.get(f"/jobs/{first.key}/cancel").text
    assert "Cancel job 2 (train-2)?" in user.get(f"/jobs/{jobs[1].key}/cancel").text


def test_the_table_says_why_no_job_is_queried(user: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Board, "problems", lambda _board: [Problem("", "the disk is full", "Free some.")])
    text = " ".join(user.get("/jobs").text.split())
    assert "<strong>The jobs are not queried</strong>" in text
    assert "the disk is full. Free some." in text


def test_a_row_has_the_last_known_state_of_a_job_whose_site_is_not_reached(
    user: TestClient, ledger: Ledger
) -> None:
    """Before the first query, and after it."""
    seen = json.encode({"state": "RUNNING", "at": (datetime.now(UTC) - timedelta(minutes=12)).isoformat()})
    ledger.settle_all([record(1, "", seen=seen.decode()), record(2, seen=seen.decode())])
    page = user.get("/jobs").text
    assert page.count("last known: RUNNING 12 min ago") == 1
    board = Board()
    board.read()
    board.fail(job_of(record(1, "")).route, ConnectionFailed("the network is down"))
    assert [row.words for row in board.rows()[0]] == [("last known: RUNNING 12 min ago",), ()]


def test_a_link_or_a_prefetched_address_starts_no_step_in_a_job(user: TestClient, ledger: Ledger) -> None:
    ledger.settle(record(1, ""))
    assert user.get(f"/jobs/{record(1).key}/gpus").status_code == 405


def test_an_action_that_fails_says_why_in_its_dialog(user: TestClient, ledger: Ledger) -> None:
    ledger.settle(record(1, ""))
    reply = user.post(f"/jobs/{record(1).key}/cancel")
    assert reply.status_code == 422
    assert "cannot connect to 127.0.0.1:1" in reply.text


def test_a_job_without_a_recorded_request_is_not_submitted_again(user: TestClient, ledger: Ledger) -> None:
    ledger.settle(record(1))
    reply = user.get(f"/jobs/{record(1).key}/resubmit")
    assert reply.status_code == 422
    assert "is not recorded" in reply.text
