"""The list of `slurmgen status`: its rows, its width and its colours."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import structs

from slurmgen.ledger.ledger import Ledger, Record, to_text
from slurmgen.slurm.replies import JobState
from slurmgen.status.failure import Why
from slurmgen.status.job import states_text
from slurmgen.status.report import JobObject
from tests.conftest import Run

NAME = "a-name-that-is-longer-than-any-column-can-be"
TIMES = {"elapsed": "00:01:12", "time_limit": "04:00:00"}
FAILED = Record(
    id="1234567",
    site="daic",
    via="ssh",
    host="far",
    name=NAME,
    folder="/f",
    output="%x-%j.out",
    submitted="2026-06-30T22:30:00+00:00",
    key="k1",
    commit="0123456789abcdef0123456789abcdef01234567",
    dirty=True,
    final=states_text((JobState(id="1234567", state="FAILED", exit_code="1:0", **TIMES),)),
    why=to_text(Why("Python has no module einops there")),
)
DONE = structs.replace(
    FAILED,
    id="42",
    name="done",
    key="k2",
    submitted="2026-07-01T10:00:00+00:00",
    final=states_text((JobState(id="42", state="COMPLETED", **TIMES),)),
    why="",
)
LONG = structs.replace(
    FAILED,
    id="12345678",
    site="a-site-of-mine",
    via="twin",
    key="k3",
    final=states_text(
        (JobState(id="12345678", state="OUT_OF_MEMORY", elapsed="1-10:00:00", time_limit="7-00:00:00"),)
    ),
    submitted="2026-07-02T10:00:00+00:00",
)


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger()
    for record in (FAILED, DONE):
        ledger.add(record)
    return ledger


def test_a_row_has_id_name_site_state_time_and_limit_and_the_local_time(
    slurmgen: Run, ledger: Ledger
) -> None:
    reply = slurmgen("status", env={**os.environ, "TZ": "Europe/Amsterdam"})
    assert (reply.returncode, reply.stderr) == (0, "")
    heading, failed, why, done = reply.stdout.splitlines()
    assert heading.split() == ["ID", "NAME", "SITE", "STATE", "TIME/LIMIT", "SUBMITTED"]
    assert failed.split()[2:] == ["daic", "FAILED", "00:01:12/04:00:00", "2026-07-01", "00:30"]
    assert why == "  Python has no module einops there"
    assert done.split()[:2] == ["42", "done"]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_list_fits_the_terminal_and_cuts_names_first(columns: int, slurmgen: Run, ledger: Ledger) -> None:
    ledger.add(LONG)
    out = slurmgen("status", env={**os.environ, "COLUMNS": str(columns)}).stdout
    assert max(map(len, out.splitlines())) <= columns
    assert NAME[:7] in out
    assert "FAILED" in out
    if columns >= 80:
        assert out.count("2026-0") == 3
        assert "1234567 " in out


def test_in_a_pipe_the_list_is_80_columns_wide_without_colours(slurmgen: Run, ledger: Ledger) -> None:
    ledger.add(LONG)
    environ = {key: text for key, text in os.environ.items() if key != "COLUMNS"}
    out = slurmgen("status", env={**environ, "FORCE_COLOR": "1"}).stdout
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out


def test_a_path_longer_than_the_terminal_stays_whole(slurmgen: Run, ledger: Ledger) -> None:
    folder, command = "/scratch/" + "x" * 90, "slurmgen submit --site daic"
    ledger.add(structs.replace(LONG, id="", state="pending", final="", directory=folder, command=command))
    lines = slurmgen("status", env={**os.environ, "COLUMNS": "80"}).stdout.splitlines()
    assert f"  {folder}$" in lines
    assert f"  {command}" in lines


def on_a_terminal(*args: str, folder: Path, **more: str) -> str:
    """The output on a terminal of 80 columns."""
    leader, follower = pty.openpty()
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "80", **more}
    command = [sys.executable, "-m", "slurmgen", *args]
    with subprocess.Popen(command, cwd=folder, env=environ, stdout=follower, stdin=follower) as process:
        os.close(follower)
        parts = []
        while True:
            try:
                part = os.read(leader, 4096)
            except OSError:
                break
            if not part:
                break
            parts.append(part)
        process.wait(60)
    os.close(leader)
    return b"".join(parts).decode()


@pytest.mark.parametrize(
    ("args", "more", "is_colored"),
    [
        ([], {}, True),
        (["--color", "never"], {}, False),
        ([], {"NO_COLOR": "1"}, False),
        (["--color=always"], {"NO_COLOR": "1"}, True),
        ([], {"TERM": "dumb"}, False),
    ],
)
def test_colours_appear_on_a_terminal_unless_they_are_disabled(
    args: list[str], more: dict[str, str], is_colored: bool, ledger: Ledger, tmp_path: Path
) -> None:
    out = on_a_terminal("status", *args, folder=tmp_path, **more)
    assert "FAILED" in out
    assert ("\x1b[31mFAILED" in out) == is_colored
    assert ("\x1b" in out) == is_colored


def test_color_always_colours_the_output_in_a_pipe(slurmgen: Run, ledger: Ledger) -> None:
    assert "\x1b[32mCOMPLETED" in slurmgen("status", "--color", "always").stdout


def test_control_characters_in_a_name_are_escaped(slurmgen: Run, ledger: Ledger) -> None:
    ledger.add(structs.replace(DONE, id="43", key="k4", name="\x1b[31m[bold]"))
    out = slurmgen("status").stdout
    assert "\x1b" not in out
    assert "\\x1b[31m[bold]" in out


def test_the_json_object_has_all_keys(slurmgen: Run, ledger: Ledger) -> None:
    jobs = json.loads(slurmgen("status", "--json").stdout)["jobs"]
    keys = (
        "id name site via cluster state ended exit_code signal reason waits why bad_nodes excludes requeued "
        "start elapsed time_limit nodes usage tasks submitted folder log commit dirty key command directory "
        "error remembered"
    )
    assert tuple(jobs[0]) == JobObject.__struct_fields__
    assert set(keys.split()) - jobs[0].keys() == set()  # programs depend on them
    assert [job["id"] for job in jobs] == ["1234567", "42"]
    assert (jobs[0]["commit"], jobs[0]["dirty"], jobs[0]["key"]) == (FAILED.commit, True, "k1")
    assert jobs[0]["why"]["what"] == "Python has no module einops there"


def test_an_unsettled_submission_has_no_id_no_cluster_and_no_log(slurmgen: Run) -> None:
    # A pending entry has the clusters that its script names, of which Slurm has not yet chosen one.
    Ledger().add(structs.replace(FAILED, id="", cluster="big,small", state="pending", final="", why=""))
    (job,) = json.loads(slurmgen("status", "--json").stdout)["jobs"]
    assert [job[key] for key in ("id", "cluster", "log", "state")] == ["", "", "", "UNKNOWN"]
    assert (job["name"], job["key"], job["folder"], job["ended"]) == (NAME, "k1", "/f", False)
    assert "slurmgen forget k1" in job["error"]


def test_status_of_one_job_shows_its_site_time_and_commit(
    slurmgen: Run, ledger: Ledger, tmp_path: Path
) -> None:
    (tmp_path / "ssh_config").write_text("Host far\n  HostName 127.0.0.1\n  Port 1\n")
    environ = {**os.environ, "TZ": "UTC"}
    reply = slurmgen("status", FAILED.id, "--ssh-config", str(tmp_path / "ssh_config"), env=environ)
    assert "  site: daic\n" in reply.stdout
    assert "  submitted: 2026-06-30 22:30:00\n" in reply.stdout
    assert f"  commit: {FAILED.commit}, with uncommitted changes (dirty)\n" in reply.stdout


def test_the_state_of_a_sweep_is_that_of_all_its_arrays_whatever_the_limit(slurmgen: Run) -> None:
    for number, state in enumerate(("FAILED", "COMPLETED", "COMPLETED")):
        array = str(100 + number)
        one = structs.replace(
            FAILED,
            id=array,
            name="fit",
            key=f"a{number}",
            part_of="a0",
            tasks=json.dumps({"tasks": {0: [{"lr": array}]}, "per_task": 1}),
            final=states_text((JobState(id=f"{array}_0", state=state, exit_code="0:0", **TIMES),), tasks=1),
        )
        Ledger().add(one)
        if not number:
            Ledger().add(structs.replace(DONE, submitted=FAILED.submitted))
    (shown,) = json.loads(slurmgen("status", "--limit", "1", "--json").stdout)["jobs"]
    assert (shown["id"], shown["state"]) == ("100", "FAILED")
    assert "1 completed" not in slurmgen("status", "--limit", "1").stdout
    both = json.loads(slurmgen("status", "--limit", "3", "--json").stdout)["jobs"]
    assert sorted((one["id"], one["state"]) for one in both) == [("100", "FAILED"), ("42", "COMPLETED")]
