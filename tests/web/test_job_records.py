"""The page of one job as the ledger knows it, without its site."""

from typing import NoReturn

import pytest
from msgspec import json, structs
from starlette.testclient import TestClient

from slurmgen.errors import ConnectionFailed
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.remote.route import Route
from slurmgen.slurm.replies import JobState, Usage
from slurmgen.status.failure import Why
from slurmgen.status.job import states_text
from slurmgen.web.jobs.poller import Connections

HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e"
FAILED = [JobState(id="12", state="FAILED", elapsed="00:20:00", time_limit="01:00:00", exit_code="1:0")]
JOB = Record(
    id="12",
    site="olivia",
    via="ssh",
    host="127.0.0.1:1",
    name="train",
    folder="/home/user/slurmgen/runs/12",
    output="train-%j.out",
    submitted="2026-01-01T10:00:00+00:00",
    key="20260101-100000-00000012",
)


def test_jobs_that_were_submitted_together_are_linked(ledger: Ledger, user: TestClient) -> None:
    ledger.add(structs.replace(JOB, part_of="20260101-100000-000000aa"))
    other = structs.replace(JOB, id="13", key="20260101-100000-00000013", name="evaluate")
    ledger.add(structs.replace(other, part_of="20260101-100000-000000aa"))
    assert f'<a href="/jobs/{other.key}">evaluate 13</a>' in user.get(f"/jobs/{JOB.key}").text


def test_the_jobs_of_a_race_are_linked_with_their_sites(ledger: Ledger, user: TestClient) -> None:
    first = structs.replace(JOB, part_of="20260101-100000-000000aa")
    other = structs.replace(first, id="13", key="20260101-100000-00000013", site="daic")
    ledger.settle_all([first, other])
    assert f'<a href="/jobs/{other.key}">train 13 at daic</a>' in user.get(f"/jobs/{JOB.key}").text


def test_the_page_of_an_array_links_its_tasks_of_which_each_has_a_log(
    ledger: Ledger, user: TestClient
) -> None:
    states = [JobState(id=f"12_{task}", state="COMPLETED", usage=Usage()) for task in range(2)]
    asked = '{"site":"olivia","project":"/p","batch_script":"own.sbatch"}'
    array = structs.replace(JOB, output="own-%A_%a.out", final=states_text(states), request=asked)
    ledger.add(array)
    whole, task = user.get(f"/jobs/{JOB.key}").text, user.get(f"/jobs/{JOB.key}?task=1").text
    assert f'<a href="/jobs/{JOB.key}?task=1">1</a>' in whole
    assert ('id="log"' in whole, 'id="log"' in task) == (False, True)
    assert ("/resubmit" in whole, "/resubmit" in task) == (True, False)


def test_a_job_and_those_that_wait_for_it_are_linked(ledger: Ledger, user: TestClient) -> None:
    asked = '{"site":"olivia","project":"/p","request":{"script":"a.py"},"after":["any:12_3"]}'
    later = structs.replace(JOB, id="13", key="20260101-100000-00000013", name="evaluate", request=asked)
    elsewhere = structs.replace(later, id="14", key="20260101-100000-00000014", name="other", host="h")
    longer = structs.replace(JOB, id="123", key="20260101-100000-00000123", name="longer")
    ledger.settle_all([JOB, later, elsewhere, longer])
    first = user.get(f"/jobs/{JOB.key}").text
    assert f'Waited for by</span> <a href="/jobs/{later.key}">evaluate 13</a>' in first
    assert elsewhere.key not in first
    link = f'Starts after the end of</span> <a href="/jobs/{JOB.key}">train 12</a>'
    second = user.get(f"/jobs/{later.key}").text
    assert 0 < second.index('id="state"') < second.index(link) < second.index('id="log"')
    assert "Waited for by" not in user.get(f"/jobs/{longer.key}").text


def test_what_a_hostile_record_contains_is_text(ledger: Ledger, user: TestClient) -> None:
    ledger.add(structs.replace(JOB, name=HOSTILE, folder=HOSTILE, command=HOSTILE, commit=HOSTILE))
    text = user.get(f"/jobs/{JOB.key}").text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[2J\\u202e" in text
    assert [part for part in ("<script>alert", "\x1b", "\u202e") if part in text] == []


def test_a_site_that_is_not_reached_leaves_what_the_ledger_remembers(
    ledger: Ledger, user: TestClient
) -> None:
    why = Why("Python has no module einops", "Install it.", "ModuleNotFoundError: einops")
    ledger.add(structs.replace(JOB, final=json.encode(FAILED).decode(), why=json.encode(why).decode()))
    reply = user.get(f"/jobs/{JOB.key}/state")
    for text in ("FAILED", "Python has no module einops", "ModuleNotFoundError: einops", "not reached"):
        assert text in reply.text
    assert "<html" not in user.get(f"/jobs/{JOB.key}/files").text
    assert "problem" in user.get(f"/jobs/{JOB.key}/found").json()


def test_the_page_of_a_job_offers_to_try_its_site_again(ledger: Ledger, user: TestClient) -> None:
    ledger.add(JOB)
    reply = user.post(f"/jobs/{JOB.key}/state?task=")
    assert f'hx-post="/jobs/{JOB.key}/state' in reply.text
    assert "Try again" in reply.text


def test_an_unsettled_submission_has_a_page_without_a_site(ledger: Ledger, user: TestClient) -> None:
    ledger.add(structs.replace(JOB, id="", state="pending"))
    text = user.get(f"/jobs/{JOB.key}").text
    assert "It is not known whether this submission became a job" in text
    assert "hx-get" not in text


@pytest.mark.parametrize("part", ["state", "log", "log.txt", "found", "gpus", "files", "script"])
def test_an_unsettled_submission_has_no_parts(part: str, ledger: Ledger, user: TestClient) -> None:
    ledger.add(structs.replace(JOB, id="", state="pending"))
    method = "POST" if part == "gpus" else "GET"
    assert user.request(method, f"/jobs/{JOB.key}/{part}").status_code == 404


def refused(_connections: Connections, _route: Route) -> NoReturn:
    raise ConnectionFailed("no host is reached")


def test_to_cancel_one_run_of_a_task_says_that_all_of_its_runs_are_cancelled(
    records: None, user: TestClient
) -> None:
    said = "All runs of this task are cancelled"
    pages = [user.get(f"/jobs/sweep/cancel?task=0{run}").text for run in ("&run=1", "")]
    assert [said in page for page in pages] == [True, False]


@pytest.fixture
def records(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job and a sweep at a site that no connection reaches."""
    monkeypatch.setattr(Connections, "_logged_in", refused)
    ledger.add(JOB)
    tasks = '{"tasks": {"0": [{"lr": "1"}, {"lr": "2"}], "1": [{"lr": "3"}]}, "per_task": 2}'
    ledger.add(structs.replace(JOB, id="14", key="sweep", tasks=tasks, output="%x-%A_%a.out"))
