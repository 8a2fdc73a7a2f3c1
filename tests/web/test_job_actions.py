"""Jobs of a real twin in the table: they are watched, cancelled and submitted again."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from msgspec import structs
from playwright.sync_api import Browser, Locator, Page, expect
from starlette.testclient import TestClient

from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.ledger.races import Race, Races
from slurmgen.slurm.replies import JobState
from slurmgen.status.job import Job
from slurmgen.status.query import make_report
from slurmgen.status.report import Report
from slurmgen.status.slurm import UNKNOWN
from slurmgen.submit.prepare import new_key
from slurmgen.web.jobs import actions
from tests.support.stepping import Stepping, submitted, submitted_script
from tests.support.twins import Testbed, eventually
from tests.support.web import DESKTOP, PHONE, Served, local_client, opened

pytestmark = pytest.mark.usefixtures("project")
"Servers are started in it."


@pytest.fixture
def ended(testbed: Testbed, project: Path) -> Record:
    """A job that has ended."""
    record = submitted(testbed, project, "done", "print('done')\n")
    testbed.wait(record.id)
    return record


def table(page: Page, server: Served) -> None:
    page.goto(f"{server.origin}/jobs")


def row(page: Page, record: Record) -> Locator:
    return page.locator(f"[id='job-{record.key}']")


def copies(original: Record) -> list[Record]:
    """The jobs that were made from a job."""
    return [one for one in Ledger().all() if f'"resubmits":"{original.key}"' in one.request]


def test_a_job_is_watched_from_its_begin_to_its_end(page: Page, server: Served, job: Stepping) -> None:
    table(page, server)
    shown = row(page, job.record)
    expect(shown.locator(".state")).to_have_text("running", timeout=60_000)
    expect(shown.locator(".time")).to_contain_text("/ 00:05:00")
    job.end()
    expect(shown.locator(".state")).to_have_text("completed", timeout=60_000)
    assert Ledger().of_key(job.record.key).final  # type: ignore[union-attr]


def test_a_job_is_cancelled_after_a_confirmation(
    page: Page, server: Served, job: Stepping, testbed: Testbed
) -> None:
    table(page, server)
    row(page, job.record).get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Keep").click()
    expect(page.get_by_role("dialog")).to_be_hidden()
    row(page, job.record).get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel the job").click()
    expect(page.get_by_role("dialog")).to_contain_text("Cancelled job")
    page.get_by_role("button", name="Close").click()
    expect(row(page, job.record).locator(".state")).to_have_text("cancelled", timeout=60_000)
    assert testbed.wait(job.record.id) == "CANCELLED"


def test_a_job_is_cancelled_with_the_keyboard_alone(page: Page, server: Served, job: Stepping) -> None:
    """The focus stays in the dialog, and then returns to the job."""
    table(page, server)
    dialog = page.get_by_role("dialog")
    row(page, job.record).get_by_role("button", name="Cancel").press("Enter")
    expect(dialog.get_by_role("button", name="Keep")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("button", name="Close")).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    expect(row(page, job.record).locator(":focus")).to_have_count(1)


def test_the_page_of_a_task_cancels_only_this_task(
    page: Page, server: Served, testbed: Testbed, project: Path
) -> None:
    sweep = submitted(testbed, project, "tune", "import time\ntime.sleep(600)\n", "--sweep", "lr=1,2")
    page.goto(f"{server.origin}/jobs/{sweep.key}?task=1")
    page.get_by_role("button", name="Cancel task").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"Cancel task {sweep.id}_1 (tune)?")
    dialog.get_by_role("button", name="Cancel the task").click()
    expect(dialog).to_contain_text(f"Cancelled task {sweep.id}_1")
    assert testbed.wait(f"{sweep.id}_1") == "CANCELLED"
    states = testbed.run("squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={sweep.id}_0")
    testbed.run("scancel", sweep.id)
    assert states.split() in (["RUNNING"], ["PENDING"])


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_a_job_is_submitted_again_with_a_change_that_is_shown_before(
    browser: Browser, server: Served, ended: Record, size: tuple[int, int]
) -> None:
    with opened(browser, server.entry, size) as page:
        table(page, server)
        row(page, ended).get_by_role("button", name="Resubmit").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("The script is the same")
        dialog.get_by_label("Time limit").fill("00:07:00")
        dialog.get_by_label("Time limit").press("Tab")
        expect(dialog.locator("ins").first).to_contain_text("00:07:00")
        assert [one["id"] for one in Axe().run(page).response["violations"]] == []
        dialog.get_by_role("button", name="Submit").click()
        expect(dialog).to_contain_text("runs again")
        (copy,) = copies(ended)
        dialog.get_by_role("link", name="Show the new job").click()
        expect(page).to_have_url(f"{server.origin}/jobs/{copy.key}")
    assert (copy.snapshot, copy.command.split()[-2:]) == (ended.snapshot, ["--time=00:07:00", "--unchanged"])


def test_enter_shows_a_change_before_it_submits(page: Page, server: Served, ended: Record) -> None:
    table(page, server)
    row(page, ended).get_by_role("button", name="Resubmit").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("The script is the same")
    limit = dialog.get_by_label("Time limit")
    limit.fill("00:07:00")
    limit.press("Enter")
    expect(dialog.locator("ins").first).to_contain_text("00:07:00")
    assert copies(ended) == []
    expect(dialog.get_by_role("button", name="Submit")).to_be_enabled()
    limit.press("Enter")
    expect(dialog).to_contain_text("runs again")
    assert len(copies(ended)) == 1


def test_a_form_that_is_sent_again_makes_no_second_job(user: TestClient, ended: Record) -> None:
    form = {"key": new_key(), "time": "00:06:00", "files": "snapshot"}
    replies = [user.post(f"/jobs/{ended.key}/resubmit", data=form) for _ in range(2)]
    (copy,) = copies(ended)
    assert [reply.status_code for reply in replies] == [200, 200]
    assert all(f"Submitted job {copy.id}" in reply.text for reply in replies)
    with local_client() as restarted:
        assert f"Submitted job {copy.id}" in restarted.post(f"/jobs/{ended.key}/resubmit", data=form).text
    assert copies(ended) == [copy]


def test_the_recorded_command_would_find_the_job(user: TestClient, project: Path, ended: Record) -> None:
    """Its entry has the fingerprint by which an interrupted submission is found again."""
    user.post(f"/jobs/{ended.key}/resubmit", data={"key": new_key(), "time": "00:06:00"})
    (first,) = copies(ended)
    subprocess.run(
        [sys.executable, "-m", *shlex.split(first.command)], cwd=first.directory, check=True, timeout=300
    )
    assert {copy.fingerprint for copy in copies(ended)} == {first.fingerprint}
    assert len(copies(ended)) == 2


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"time": "never"}, "never"),
        ({"gpus": "many"}, "not a number of GPUs"),
        ({"gpus": "99999"}, "99999"),
        ({"site": "../../etc/passwd"}, "passwd"),
        ({"site": "no-such-site"}, "no-such-site"),
        ({"key": "../../etc"}, "form is not valid"),
    ],
)
def test_a_wrong_value_is_refused_in_the_dialog(
    user: TestClient, ended: Record, change: dict[str, str], fact: str
) -> None:
    form = {"key": new_key(), "files": "snapshot", **change}
    reply = user.post(f"/jobs/{ended.key}/resubmit", data=form)
    assert reply.status_code == 422
    assert fact in reply.text
    assert copies(ended) == []


def test_the_present_files_are_sent_if_the_user_asks_for_them(
    user: TestClient, project: Path, ended: Record, testbed: Testbed
) -> None:
    (project / "done.py").write_text("print('changed')\n")
    user.post(f"/jobs/{ended.key}/resubmit", data={"key": new_key(), "files": "present"})
    (copy,) = copies(ended)
    assert copy.snapshot != ended.snapshot
    assert testbed.wait(copy.id) in ("COMPLETED", "GONE")


def test_cancelling_all_jobs_of_a_race_ends_it(user: TestClient, ended: Record) -> None:
    race = Race(new_key(), "command")
    entry = structs.replace(ended, key=new_key(), part_of=race.key)
    Races().enter(race, [entry])
    assert user.post(f"/jobs/{entry.key}/cancel").status_code == 200
    assert Races().current(race).over


def test_cancelling_all_together_ends_a_race_of_which_a_site_has_no_job_yet(
    user: TestClient, ended: Record
) -> None:
    race, late = Race(new_key(), "command"), new_key()
    entry = structs.replace(ended, key=new_key(), part_of=race.key)
    folder = str(Path(ended.folder).with_name(late))
    sent = structs.replace(entry, id="", key=late, folder=folder, state="pending", final="")
    Races().enter(race, [entry, sent])
    assert f"/jobs/{entry.key}/cancel?whole=1" in user.get(f"/jobs/{entry.key}").text
    reply = user.post(f"/jobs/{entry.key}/cancel?whole=1")
    assert (reply.status_code, "Nothing was submitted at" in reply.text) == (200, True)
    assert Races().current(race).over
    assert [one.key for one in Races().entries(race)] == [entry.key]


def test_a_job_whose_state_is_not_known_is_not_called_cancelled(
    user: TestClient, ended: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record without a state, as a reply that is cut short has, is not cancelled: it may be another job."""

    def unknown(jobs: Sequence[Job], *_: object) -> list[Report]:
        return [make_report(job, [JobState(id=ended.id, state=UNKNOWN)]) for job in jobs]

    monkeypatch.setattr(actions, "cancel_all", unknown)
    text = user.post(f"/jobs/{ended.key}/cancel").text
    assert "Not certainly cancelled: job" in text
    assert "asked to cancel" not in text


def test_another_web_site_can_neither_cancel_nor_submit(user: TestClient, ended: Record) -> None:
    for action in ("cancel", "resubmit", "resubmit/preview"):
        reply = user.post(f"/jobs/{ended.key}/{action}", headers={"origin": "http://evil.example"})
        assert reply.status_code == 403
    assert copies(ended) == []


def test_after_a_time_limit_the_form_has_twice_the_time(user: TestClient, ended: Record) -> None:
    final = f'[{{"id":"{ended.id}","state":"TIMEOUT","time_limit":"00:05:00","elapsed":"00:05:01"}}]'
    Ledger().save_final_states({ended: (final, "", "")})
    form = user.get(f"/jobs/{ended.key}/resubmit").text
    assert "it reached its time limit of 00:05:00" in form
    assert 'value="00:10:00"' in form


@pytest.mark.parametrize(
    ("header", "end", "field", "value", "option"),
    [
        ("--mem=50M", '"state":"TIMEOUT","time_limit":"00:05:00"', "time", "00:10:00", "--time=00:10:00"),
        ("--mem=50M", '"state":"OUT_OF_MEMORY"', "mem", "256M", "--mem=256M"),
        ("--mem-per-cpu=50M", '"state":"OUT_OF_MEMORY"', "mem-per-cpu", "256M", "--sbatch=mem-per-cpu=256M"),
    ],
)
def test_a_batch_script_runs_again_with_the_memory_or_time_that_it_lacked(
    user: TestClient,
    testbed: Testbed,
    project: Path,
    header: str,
    end: str,
    field: str,
    value: str,
    option: str,
) -> None:
    script = submitted_script(
        testbed, project, "own.sbatch", f"#!/bin/bash\n#SBATCH {header} --time=5\ntrue\n"
    )
    testbed.wait(script.id)
    final = f'[{{"id":"{script.id}",{end},"usage":{{"cpus":1,"memory":50}}}}]'
    Ledger().save_final_states({script: (final, "", "")})
    address = f"/jobs/{script.key}/resubmit"
    form = user.get(address).text
    assert f'name="{field}" value="{value}"' in form
    sent = {"key": new_key(), field: value}
    preview = user.post(f"{address}/preview", data=sent).text
    assert f'sbatch gets <span class="mono">--{field}={value}</span>' in preview
    user.post(address, data=sent)
    (copy,) = copies(script)
    assert copy.command == f"slurmgen resubmit {script.id} {option} --unchanged"


def test_a_form_that_was_changed_after_an_unknown_outcome_is_not_sent_with_the_same_key(
    user: TestClient, ended: Record
) -> None:
    sent = structs.replace(ended, id="", key=new_key(), state="pending", fingerprint="of the form before")
    Ledger().add(sent)
    reply = user.post(f"/jobs/{ended.key}/resubmit", data={"key": sent.key, "time": "00:06:00"})
    assert (reply.status_code, "the form has changed since" in reply.text) == (422, True)


SWEPT = "import sys\nprint(sys.argv)\nraise SystemExit(sys.argv[1] == '--lr=2')\n"


def test_the_tasks_that_failed_or_one_task_run_again(
    page: Page, server: Served, testbed: Testbed, project: Path
) -> None:
    sweep = submitted(testbed, project, "fit", SWEPT, "--sweep", "lr=1,2,3")
    testbed.wait(sweep.id)
    page.goto(f"{server.origin}/jobs/{sweep.key}")
    expect(page.locator("#state")).to_contain_text("1 of 3 tasks failed")
    expect(page.locator("#sweep-table td.error")).to_have_text("FAILED")
    page.get_by_role("button", name="Resubmit …").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("radio", name="Those that failed 1")).to_be_checked()
    expect(dialog.locator("ins")).to_have_text("+#SBATCH --array=1")
    dialog.get_by_role("button", name="Submit").click()
    expect(dialog).to_contain_text("runs again")
    page.keyboard.press("Escape")
    page.get_by_role("button", name=f"Resubmit task {sweep.id}_2").click()
    expect(dialog.get_by_role("radio", name=f"Task {sweep.id}_2 lr=3")).to_be_checked()
    expect(dialog.locator("ins")).to_have_text("+#SBATCH --array=2")
    dialog.get_by_role("button", name="Submit").click()
    expect(dialog).to_contain_text("runs again")
    assert [(copy.command, copy.tasks) for copy in copies(sweep)] == [
        (f"slurmgen resubmit {sweep.id} --failed --unchanged", '{"tasks":{"1":[{"lr":"2"}]}}'),
        (f"slurmgen resubmit {sweep.id}_2 --unchanged", '{"tasks":{"2":[{"lr":"3"}]}}'),
    ]


def test_only_tasks_that_a_sweep_has_are_submitted_again(user: TestClient, ended: Record) -> None:
    for tasks, why in (("x", "names no task"), ("7", "is not a sweep"), ("failed", "is not a sweep")):
        reply = user.post(f"/jobs/{ended.key}/resubmit", data={"key": new_key(), "tasks": tasks})
        assert reply.status_code == 422
        assert why in reply.text
    assert copies(ended) == []


@pytest.mark.parametrize("ends", [signal.SIGTERM, signal.SIGINT])
def test_a_form_in_the_middle_of_which_the_server_is_ended_is_finished(
    ends: int, ended: Record, testbed: Testbed
) -> None:
    """The controller of the twin stands still until the server has received the signal and printed so."""
    (controller,) = (one.pid for one in testbed.twin.daemons if one.name == "slurmctld")
    assert controller
    argv = [sys.executable, "-m", "slurmgen", "web"]
    with (
        subprocess.Popen(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server,
        ThreadPoolExecutor() as pool,
    ):
        assert server.stdout
        assert server.stderr
        entry = server.stdout.readline().strip()
        origin, _, _ = entry.partition("/?")
        with httpx.Client(timeout=300, headers={"origin": "/".join(origin.split("/")[:3])}) as client:
            client.get(entry)
            address = f"{origin}/jobs/{ended.key}/resubmit"
            os.kill(controller, signal.SIGSTOP)
            try:
                reply = pool.submit(client.post, address, data={"key": new_key(), "time": "00:06:00"})
                eventually(lambda: copies(ended))
                server.send_signal(ends)
                said = iter(server.stderr)
                assert any("finishing 1 form" in line for line in said)
            finally:
                os.kill(controller, signal.SIGCONT)
            answer = reply.result()
        assert (answer.status_code, server.wait(300)) == (200, 0 if ends == signal.SIGINT else -ends)
    (copy,) = copies(ended)
    assert f"Submitted job {copy.id}" in answer.text
    assert not copy.pending
