"""The page of one job as the ledger knows it, without its site."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import json, structs
from starlette.testclient import TestClient

from slurmgen.jobs.failure import Why
from slurmgen.jobs.ledger import Ledger, Record
from slurmgen.slurm.replies import JobState
from slurmgen.web import Settings, create_app

SETTINGS = Settings(hosts=("127.0.0.1:8123",))
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


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    (tmp_path / "state").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Ledger()


@pytest.fixture
def user(ledger: Ledger) -> Iterator[TestClient]:
    """A client with the cookie."""
    with TestClient(create_app(SETTINGS), base_url="http://127.0.0.1:8123") as client:
        client.get("/", params={"token": SETTINGS.token})
        yield client


def test_jobs_that_were_submitted_together_are_linked(ledger: Ledger, user: TestClient) -> None:
    ledger.add(structs.replace(JOB, part_of="20260101-100000-000000aa"))
    other = structs.replace(JOB, id="13", key="20260101-100000-00000013", name="evaluate")
    ledger.add(structs.replace(other, part_of="20260101-100000-000000aa"))
    assert f'<a href="/jobs/{other.key}">evaluate 13</a>' in user.get(f"/jobs/{JOB.key}").text


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


def test_an_unsettled_submission_has_a_page_without_a_site(ledger: Ledger, user: TestClient) -> None:
    ledger.add(structs.replace(JOB, id="", state="pending"))
    text = user.get(f"/jobs/{JOB.key}").text
    assert "It is not known whether this submission became a job" in text
    assert "hx-get" not in text


@pytest.mark.parametrize("part", ["state", "log", "log.txt", "found", "gpus", "files", "script"])
def test_an_unsettled_submission_has_no_parts(part: str, ledger: Ledger, user: TestClient) -> None:
    ledger.add(structs.replace(JOB, id="", state="pending"))
    assert user.get(f"/jobs/{JOB.key}/{part}").status_code == 404


def test_a_log_that_cannot_be_read_is_not_saved_as_an_empty_file(ledger: Ledger, user: TestClient) -> None:
    ledger.add(JOB)
    reply = user.get(f"/jobs/{JOB.key}/log.txt")
    assert (reply.status_code, "content-disposition" in reply.headers) == (422, False)
