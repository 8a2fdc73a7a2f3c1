"""The page of one job in Chromium, beside real jobs of a twin."""

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest
from httpx import Response
from playwright.sync_api import Browser, Page, expect
from starlette.testclient import TestClient

from slurmgen.ledger.ledger import Record
from slurmgen.web.jobs import log
from slurmgen.web.jobs.files import id_of
from tests.support.stepping import Stepping, submitted
from tests.support.twins import Testbed, eventually
from tests.support.web import PHONE, Served, faults, opened

pytestmark = pytest.mark.usefixtures("project")
"Servers are started in it."

FAILS = "import sys\nprint('loading')\nimport missing_module\n"
SWEPT = """import json, os, pathlib, sys
lr = float(sys.argv[1].split("=")[1])
row = {"epoch": 1, "loss": lr * 2, "lr": lr}
pathlib.Path(os.environ["RUN_DIR"], "metrics.jsonl").write_text(json.dumps(row))
"""
HOSTILE = (
    b"<img src=x onerror=alert(1)><script>alert(2)</script>\n"
    b"\x1b]0;title\x07\x1b[2J\x1b[10;10Hmoved\n"
    + "left\u202eright\u2066\n".encode()
    + b"\xff\xfe bytes\n\x1b[1;31mred\x1b[0m plain\n"
    b"10 %\r50 %\r100 %\n" + b"x" * 1_000_000 + b"END"
)


@pytest.fixture(scope="module")
def known(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Record:
    """A job that has ended."""
    folder = tmp_path_factory.mktemp("home") / "project"
    folder.mkdir()
    record = submitted(testbed, folder, "known", "print('done')\n")
    testbed.wait(record.id)
    return record


def address(server: Served, record: Record, query: str = "") -> str:
    return f"{server.origin}/jobs/{quote(record.key)}?token={server.settings.token}{query}"


def lines(page: Page) -> list[str]:
    return page.locator("#log-lines > div:not(.rest)").all_text_contents()


def test_a_running_job_shows_its_log_and_its_curves_as_they_grow(
    browser: Browser, server: Served, job: Stepping
) -> None:
    job.step(1, "epoch 1\nof many")
    eventually(lambda: Path(job.record.folder, "run/metrics.jsonl").exists())
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
        page.get_by_text("GPU use now").click()
        expect(page.locator("details[data-load=gpus]")).to_contain_text("on average 50 % of 1 GPU")
        assert faults(page) == []

        job.end()
        expect(page.locator("#state .badge")).to_have_text("COMPLETED")
        expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
        expect(page.locator("#log-state")).to_contain_text("COMPLETED")


def test_a_stream_that_is_cut_loses_and_repeats_no_line(
    browser: Browser, server: Served, job: Stepping, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each connection ends in the middle of its third event."""
    sent = log.sent

    async def cut(feed: log.Feed) -> AsyncIterator[bytes]:
        events = 0
        async for part in sent(feed):
            events += part.startswith(b"id:")
            yield part[: len(part) // 2] if events == 3 else part
            if events == 3:
                return

    monkeypatch.setattr(log, "sent", cut)
    monkeypatch.setattr(log, "RETRY", 20)
    monkeypatch.setattr(log, "FIRST_PAUSE", 0.1)
    with opened(browser, address(server, job.record)) as page:
        for number in range(1, 9):
            job.step(number, f"line {number}\nof step {number}")
            expect(page.locator("#log-lines")).to_contain_text(f"of step {number}")
        job.end()
        expect(page.locator("#log-state")).to_contain_text("COMPLETED")
        assert lines(page) == [
            text for number in range(1, 9) for text in (f"line {number}", f"of step {number}")
        ]


def test_a_hostile_log_is_text(browser: Browser, server: Served, job: Stepping) -> None:
    job.step(1, HOSTILE)
    job.step(2, "last")
    with opened(browser, address(server, job.record), PHONE) as page:
        page.on("dialog", lambda dialog: pytest.fail("a script of the log ran"))
        expect(page.locator("#log-lines")).to_contain_text("last")
        shown = lines(page)
        assert shown[:2] == [
            "<img src=x onerror=alert(1)><script>alert(2)</script>",
            "\\x1b]0;title\\x07\\x1b[2J\\x1b[10;10Hmoved",
        ]
        assert shown[2:6] == ["left\\u202eright\\u2066", "\\xff\\xfe bytes", "red plain", "100 %"]
        assert "".join(shown[6:-1]) == "x" * 1_000_000 + "END"
        assert page.locator("#log-lines img, #log-lines script").count() == 0
        expect(page.locator("#log-lines .bold.c1")).to_have_text("red")
        assert faults(page) == []


def test_the_log_is_limited_to_a_rank(
    browser: Browser, server: Served, testbed: Testbed, project: Path
) -> None:
    program = "import os\nfor line in 'ab':\n    print(os.environ['RANK'], line, flush=True)\n"
    record = submitted(
        testbed, project, "ranks", program, "--framework", "srun", "--gpus", "2", "--label-ranks"
    )
    testbed.wait(record.id)
    with opened(browser, address(server, record)) as page:
        expect(page.locator("#log-lines > div")).to_have_count(4)
        assert page.get_by_label("Rank").locator("option").all_text_contents() == ["all", "0", "1"]
        page.get_by_label("Rank").select_option("1")
        expect(page.locator("#log-lines > div")).to_have_count(2)
        assert [line.split(":")[1].strip() for line in lines(page)] == ["1 a", "1 b"]
        reply = page.request.get(f"{server.origin}/jobs/{record.key}/log?rank=2")
        assert reply.status == 404


def test_a_failed_job_shows_its_cause_and_its_files_are_fetched(
    browser: Browser, server: Served, testbed: Testbed, project: Path
) -> None:
    record = submitted(testbed, project, "fails", FAILS)
    testbed.wait(record.id)
    with opened(browser, address(server, record), PHONE) as page:
        expect(page.locator("#state .badge")).to_have_text("FAILED")
        expect(page.locator("#state .cause")).to_contain_text("Python has no module missing_module")
        expect(page.locator("#state")).to_contain_text("ModuleNotFoundError: No module named")
        page.get_by_text("Files", exact=True).click()
        log = f"fails-{record.id}.out"
        expect(page.locator("table.files")).to_contain_text(log)
        page.get_by_role("button", name="Fetch all").click()
        folder = project / f"fails-{record.id}"
        expect(page.locator("#fetched")).to_contain_text(str(folder))
        assert (folder / log).read_bytes() == Path(record.folder, log).read_bytes()
        (folder / log).write_text("my own")
        page.get_by_role("button", name="Fetch all").click()
        expect(page.locator("#fetched")).to_contain_text("with other content")
        assert (folder / log).read_text() == "my own"
        with page.expect_download() as download:
            page.get_by_role("link", name=log).click()
        assert download.value.suggested_filename == log
        assert download.value.path().read_bytes() == Path(record.folder, log).read_bytes()
        page.get_by_text("Script", exact=True).click()
        expect(page.locator("pre.script")).to_contain_text("#SBATCH --job-name=fails")
        expect(page.locator("#script-findings")).to_have_text("The linter finds nothing.")
        assert faults(page) == []
        page.emulate_media(media="print")
        expect(page.locator("pre.script")).to_have_css("max-height", "none")


def test_the_runs_of_a_sweep_are_a_table_and_a_chart(
    browser: Browser, server: Served, testbed: Testbed, project: Path
) -> None:
    record = submitted(testbed, project, "fit", SWEPT, "--sweep", "lr=1e-3,0.3,1e-2")
    testbed.wait(record.id)
    with opened(browser, address(server, record)) as page:
        expect(page.locator("#sweep-table tbody tr")).to_have_count(3)
        expect(page.locator("#sweep-chart canvas")).to_be_visible()
        page.get_by_role("button", name="loss").click()
        page.get_by_role("button", name="loss").click()
        first = page.locator("#sweep-table tbody tr").first
        expect(first.locator("td")).to_have_text(
            [f"{record.id}_1", "0.3", "COMPLETED", "1", "0.6", "Resubmit"]
        )
        expect(page.get_by_label("log").first).to_be_checked()
        expect(page.get_by_role("img", name="loss over lr: 3 of 3 runs")).to_be_visible()
        assert faults(page) == []
        first.get_by_role("link").click()
        expect(page.locator(".parameters")).to_have_text("lr=0.3")
        expect(page.locator("#charts canvas").first).to_be_visible()


def test_log_and_curves_are_shown_where_the_browser_names_an_unknown_language(
    browser: Browser, server: Served, job: Stepping
) -> None:
    job.step(1, "epoch 1")
    with opened(browser, "about:blank") as page:
        page.add_init_script("Object.defineProperty(Navigator.prototype, 'language', { get: () => 'C' })")
        page.goto(address(server, job.record))
        expect(page.locator("#log-lines")).to_contain_text("epoch 1")
        expect(page.locator("#charts canvas").first).to_be_visible()


@pytest.mark.parametrize(
    ("part", "status"),
    [
        ("log?task=0", 404),
        ("log?rank=x", 400),
        ("log?rank=1", 404),
        ("log?file=0123456789abcdef", 404),
        ("curves?file=..%2F..%2Fetc%2Fpasswd", 404),
        ("sweep", 404),
        ("files?task=-1", 400),
        ("files/one?file=..%2F..%2Fetc%2Fpasswd", 404),
        ("files/one?file=stderr", 404),
        ("files/one", 404),
    ],
)
def test_only_what_a_job_has_can_be_asked_for(
    part: str, status: int, user: TestClient, known: Record
) -> None:
    assert user.get(f"/jobs/{known.key}/{part}").status_code == status
    assert user.get(f"/jobs/20260101-000000-00000000/{part}").status_code == 404


def test_one_file_is_sent_as_an_attachment_and_never_one_outside_of_the_folder(
    user: TestClient, known: Record
) -> None:
    folder = Path(known.folder)
    Path(folder, 'w\u00e4y <b>".html').write_bytes(b"x" * 3_000_000)
    Path(folder, "inside").symlink_to('w\u00e4y <b>".html')
    Path(folder, "outside").symlink_to("/etc/passwd")

    def sent(name: str) -> Response:
        return user.get(f"/jobs/{known.key}/files/one", params={"file": id_of(name)})

    page, inside, outside = sent('w\u00e4y <b>".html'), sent("inside"), sent("outside")
    listed = user.get(f"/jobs/{known.key}/files").text
    assert f"files/one?file={id_of('inside')}" in listed
    assert page.content == inside.content == b"x" * 3_000_000
    assert page.headers["content-length"] == "3000000"
    assert page.headers["content-type"] == "application/octet-stream"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["content-disposition"] == (
        "attachment; filename=\"w_y__b__.html\"; filename*=UTF-8''w%C3%A4y%20%3Cb%3E%22.html"
    )
    assert outside.status_code == 422
    assert "leads out of the folder" in outside.text


def test_a_job_may_name_its_values_as_it_likes(user: TestClient, known: Record) -> None:
    Path(known.folder, "metrics.jsonl").write_text('{"epoch": 1, "\\ud800a\\u202eb": 2}\n')
    (file,) = user.get(f"/jobs/{known.key}/found").json()["metrics"]
    curves = user.get(f"/jobs/{known.key}/curves", params={"file": file["id"]}).json()
    assert curves["values"] == {r"\ud800a\u202eb": [2]}


def test_a_page_keeps_the_last_lines_and_reads_nothing_while_it_is_paused(
    browser: Browser, server: Served, job: Stepping
) -> None:
    job.step(1, "first")
    with opened(browser, address(server, job.record)) as page:
        expect(page.locator("#log-lines")).to_contain_text("first")
        job.step(2, "\n".join(f"line {number}" for number in range(7000)))
        expect(page.locator("#log-lines > div").last).to_have_text("line 6999")
        expect(page.locator("#log-lines > div")).to_have_count(5000)
        expect(page.locator("#log-cut")).to_contain_text("It keeps the last 5,000 lines.")

        page.get_by_role("button", name="Pause").click()
        job.step(3, "while it was paused")
        job.end()
        expect(page.locator("#state .badge")).to_have_text("COMPLETED")
        assert lines(page)[-1] == "line 6999"
        page.get_by_role("button", name="Continue").click()
        expect(page.locator("#log-state")).to_contain_text("COMPLETED")
        assert lines(page)[-2:] == ["line 6999", "while it was paused"]
