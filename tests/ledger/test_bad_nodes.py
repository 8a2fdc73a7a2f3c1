"""Bad nodes: what is remembered, for how long, and which jobs exclude them."""

import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from slurmgen import load_job
from slurmgen.errors import CommandFailed
from slurmgen.ledger.bad_nodes import MOST_EXCLUDED, BadNode, BadNodes, Place, bad_node
from slurmgen.ledger.ledger import Ledger, Record
from slurmgen.remote.local import LocalTransport
from slurmgen.remote.route import Route
from slurmgen.slurm import units
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import JobState
from slurmgen.status.failure import Why
from slurmgen.status.job import Job, states_text
from slurmgen.status.nodes import Checked, Scope, clear_healthy, on_good_nodes, with_bad_nodes
from slurmgen.status.nodes import remember as remember_reported
from slurmgen.status.preflight_reports import findings
from slurmgen.status.report import Report
from slurmgen.status.report_text import lines
from slurmgen.submit.how import How
from slurmgen.submit.prepare import prepare_job
from slurmgen.submit.submission import advised
from tests.conftest import Run

DAIC = Place("daic")
NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
PROJECT = """
[job.train]
site = { daic = { account = "a" } }
framework = "python"
script = "train.py"
exclude = ["mine=it is slow"]
"""


@pytest.fixture
def nodes(tmp_path: Path) -> BadNodes:
    return BadNodes(tmp_path / "state" / "bad-nodes.sqlite")


def report(node: str, job: str = "12", days: float = 7, now: datetime = NOW, place: Place = DAIC) -> BadNode:
    return bad_node(place, node, "3 GPUs", job, checks=("gpu-count",), days=days, now=now)


def names(found: Sequence[BadNode]) -> list[str]:
    return [node.node for node in found]


def test_nodes_of_a_site_are_not_those_of_another_or_of_its_twin(nodes: BadNodes) -> None:
    nodes.add([report("n1"), report("n2", place=Place("olivia")), report("n3", place=Place("daic", True))])
    assert names(nodes.current(DAIC, NOW)) == ["n1"]
    assert names(nodes.current(Place("daic", True), NOW)) == ["n3"]


N1, N2 = report("n1"), report("n2", now=NOW + timedelta(hours=1))
BY_HAND = report("n1", "")


@pytest.mark.parametrize(
    ("first", "cleared", "again", "days", "expected"),
    [
        ([N1], [], [], 6.99, ["n1: 3 GPUs"]),
        ([N1], [], [], 7, []),
        ([structs.replace(N2, node="n1", job="13", finding="NaN"), N1], [], [], 0, ["n1: NaN"]),
        ([N1, N2], [], [], 0, ["n2: 3 GPUs", "n1: 3 GPUs"]),
        ([N1], [], [report("n1", now=NOW + timedelta(days=6))], 8, []),
        ([N1, N2], [N1], [N1], 0, ["n2: 3 GPUs"]),
        ([N1], [N1], [report("n1", "13")], 0, ["n1: 3 GPUs"]),
        ([BY_HAND], [BY_HAND], [structs.replace(BY_HAND, finding="slow")], 0, ["n1: slow"]),
    ],
    ids=[
        *("not expired", "expired", "the newest report counts", "the newest node is first"),
        *(
            "read again, it lasts no longer",
            "read again, it stays cleared",
            "new after a clear",
            "by hand again",
        ),
    ],
)
def test_which_nodes_are_bad(
    nodes: BadNodes,
    first: list[BadNode],
    cleared: list[BadNode],
    again: list[BadNode],
    days: float,
    expected: list[str],
) -> None:
    nodes.add(first)
    nodes.clear(cleared)
    nodes.add(again)
    found = nodes.current(now=NOW + timedelta(days=days))
    assert [f"{one.node}: {one.finding}" for one in found] == expected


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "slurmgen.toml").write_text(PROJECT)
    for name in ("train.py", "pyproject.toml"):
        (folder / name).touch()
    return folder


def remember(*found: str, site: str = "daic") -> None:
    now = datetime.now(UTC)
    for age, node in enumerate(found):
        BadNodes().add([report(node, now=now - timedelta(minutes=age), place=Place(site))])


def submitted(slurmgen: Run, project: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    return slurmgen("submit", "--dry-run", "--site", "daic", "--via", "local", *args, cwd=project)


def directive(script: str) -> str | None:
    found = [line for line in script.splitlines() if line.startswith("#SBATCH --exclude=")]
    return found[0].partition("=")[2] if found else None


MANY = [f"n{number}" for number in range(MOST_EXCLUDED + 5)]


@pytest.mark.parametrize(
    ("bad", "options", "excluded", "said"),
    [
        (["n1", "n2"], "--sbatch exclude=old[1-3]", "old[1-3],mine,n1,n2", "excluding bad nodes: n1, n2;"),
        (["old2", "gpu7"], "--sbatch exclude=old[1-3] --exclude gpu[6-8]", "old[1-3],gpu[6-8]", ""),
        (["n1"], "--no-exclude-bad-nodes", "mine", ""),
        (["n1"], "--sbatch nodelist=n1", "mine", ""),
        (MANY, "", f"mine,{','.join(MANY[:MOST_EXCLUDED])}", f"the newest {MOST_EXCLUDED} of {len(MANY)}"),
    ],
)
def test_submit_excludes_bad_nodes_that_the_job_does_not_exclude_yet(
    bad: list[str], options: str, excluded: str, said: str, slurmgen: Run, project: Path
) -> None:
    remember(*bad)
    reply = submitted(slurmgen, project, *options.split())
    assert directive(reply.stdout) == excluded
    assert said in reply.stderr


def test_a_comment_says_why_and_until_when(slurmgen: Run, project: Path) -> None:
    remember("n1")
    (node,) = BadNodes().current()
    script = submitted(slurmgen, project).stdout
    assert "# Excludes mine: it is slow\n" in script
    assert f"# Excludes n1: 3 GPUs (job 12), until {node.until[:10]}\n" in script


def test_the_command_in_the_header_makes_the_same_script(slurmgen: Run, project: Path) -> None:
    remember("n1")
    script = submitted(slurmgen, project).stdout
    (command,) = [line for line in script.splitlines() if line.startswith("# Made by: ")]
    words = command.removeprefix("# Made by: slurmgen ")
    made = subprocess.run(
        ["bash", "-c", f'"$0" -m slurmgen {words}', sys.executable],
        cwd=project,
        capture_output=True,
        text=True,
    )
    assert made.stdout == script


def test_render_and_checked_in_scripts_do_not_depend_on_remembered_nodes(
    slurmgen: Run, project: Path
) -> None:
    assert slurmgen("render", "--all", "--write", cwd=project).returncode == 0
    before = slurmgen("render", "--site", "daic", cwd=project).stdout
    remember("n1")
    assert slurmgen("render", "--site", "daic", cwd=project).stdout == before
    assert slurmgen("check", cwd=project).returncode == 0


def test_render_excludes_them_if_asked(slurmgen: Run, project: Path) -> None:
    remember("n1")
    reply = slurmgen("render", "--site", "daic", "--exclude-bad-nodes", cwd=project)
    assert directive(reply.stdout) == "mine,n1"


def test_a_script_in_a_file_cannot_exclude_them(slurmgen: Run, project: Path) -> None:
    for option in (["--write"], ["-o", "x.sbatch"]):
        reply = slurmgen("render", "--exclude-bad-nodes", *option, cwd=project)
        assert reply.returncode == 2
        assert "is for a script on stdout" in reply.stderr


def test_a_repeated_submission_is_the_same_although_another_node_is_bad(project: Path) -> None:
    route = Route(site="daic", via="ssh", host="h")

    def fingerprint() -> str:
        job = on_good_nodes(load_job("train", "daic", project), DAIC)
        return prepare_job(job, job.plan(), route, How())[0].record.fingerprint

    first = fingerprint()
    remember("n1")
    assert fingerprint() == first


def test_nodes_are_added_listed_and_cleared(slurmgen: Run, tmp_path: Path) -> None:
    add = ("nodes", "--site", "daic", "--add", "n1", "--add", "n2", "--because", "ECC errors")
    shown = slurmgen(*add, cwd=tmp_path).stdout.splitlines()
    assert shown[0].split() == ["SITE", "NODE", "SINCE", "UNTIL", "FINDING"]
    assert [line.split()[:2] for line in shown[1:]] == [["daic", "n1"], ["daic", "n2"]]
    assert shown[1].endswith("ECC errors (by hand)")
    left = json.loads(slurmgen("nodes", "--clear", "n1", "--json", cwd=tmp_path).stdout)
    assert [node["node"] for node in left["nodes"]] == ["n2"]
    assert slurmgen("nodes", "--clear-all", cwd=tmp_path).stderr == "no bad node is remembered\n"


def test_the_days_come_from_the_option_or_personal_toml(
    slurmgen: Run, config_dir: Path, tmp_path: Path
) -> None:
    (config_dir / "personal.toml").write_text("[daic]\nbad_node_days = 30\n")
    add = ("nodes", "--site", "daic", "--because", "x", "--json", "--add")
    slurmgen(*add, "n1", cwd=tmp_path)
    found = json.loads(slurmgen(*add, "n2", "--days", "2", cwd=tmp_path).stdout)["nodes"]
    days = {node["node"]: _age(node) for node in found}
    assert days == {"n1": timedelta(days=30), "n2": timedelta(days=2)}


def _age(node: dict[str, str]) -> timedelta:
    return datetime.fromisoformat(node["until"]) - datetime.fromisoformat(node["since"])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--add", "n1"], "--add needs --site and --because"),
        (["--site", "daic", "--add", "n1", "--because", " "], "--add needs --site and --because"),
        (["--because", "x"], "--because and --days need --add"),
        (["--via", "twin"], "--via needs --site"),
        (["--clear", "n1"], "node n1 is not listed"),
        (["--clear", "n1", "--clear-all"], "--clear and --clear-all exclude each other"),
        (["--site", "daic", "--add", "n1", "--because", "x", "--days", "nan"], "--days is not a number"),
        (["--site", "daic", "--add", "n1", "--because", "x", "--days", "1e-9"], "not in the range"),
        (["--site", "daic", "--add", "n[1-3]", "--because", "x"], "is not the name of a node"),
        (["--site", "daik"], "Did you mean daic"),
        (["--site", "daic", "--add", "n1", "--because", "x", "--clear-all"], "exclude each other"),
    ],
)
def test_a_wrong_command_line_is_refused(
    args: list[str], message: str, slurmgen: Run, tmp_path: Path
) -> None:
    reply = slurmgen("nodes", *args, cwd=tmp_path)
    assert reply.returncode == 2
    assert message in reply.stderr


@pytest.mark.parametrize(
    ("nodes", "name", "expected"),
    [
        ("n1", "n1", True),
        ("n1,n2", "n2", True),
        ("gpu[07-10,12],cpu1", "gpu09", True),
        ("gpu[07-10,12],cpu1", "gpu12", True),
        ("gpu[07-10,12],cpu1", "cpu1", True),
        ("127.0.0.[2-3]", "127.0.0.3", True),
        ("r[1-2]n[3-4]x", "r1n4x", True),
        ("gpu[07-10]", "gpu11", False),
        ("gpu[07-10]", "gpu7", False),
        ("gpu[8-10]", "gpu09", False),
        ("n[1-999999999999999999]", "m1", False),
        ("n[1-", "n1", False),
        ("n1", "n12", False),
        ("", "n1", False),
    ],
)
def test_a_node_is_found_in_a_list_of_slurm(nodes: str, name: str, *, expected: bool) -> None:
    assert units.node_list_contains(nodes, name) is expected


def finding(node: str, text: str, *, busy: bool = False) -> dict[str, object]:
    """What a report says against a node."""
    return {"node": node, "healthy": False, "busy": busy, "findings": [{"check": "slow", "text": text}]}


def report_of(
    folder: Path, nodes: str, *reports: list[dict[str, object]], retries: bool = False, state: str = "FAILED"
) -> Report:
    """The report of a job whose runs left these reports, of which each also has a healthy node."""
    for number, bad in enumerate(reports):
        content = {"schema": 1, "verdict": "bad", "nodes": [*bad, {"node": "n2", "healthy": True}]}
        (folder / f".preflight-12-{number}.json").write_text(json.dumps(content))
    record = structs.replace(RECORD, folder=str(folder), retries=retries)
    states = (JobState(id="12", state=state, exit_code="79:0", nodes=nodes),)
    job = Job(JobId("12"), Route(site="daic", via="local"), record)
    (found,) = with_bad_nodes(LocalTransport(), [Report(job=job, state=state, states=states)])
    return found


RECORD = Record(id="12", site="daic", via="local", name="", folder="", output="", submitted="")
BOTH = [finding("n1", "slow"), finding("other9", "slow")]
PORT = "another program uses port 20007"


@pytest.mark.parametrize(
    ("nodes", "retries", "bad"), [("n[1-2]", False, ["n1"]), ("n[3-4]", True, ["n1", "other9"])]
)
def test_a_report_counts_against_nodes_of_its_job_or_those_that_it_left(
    nodes: str, retries: bool, bad: list[str], tmp_path: Path
) -> None:
    assert list(report_of(tmp_path, nodes, BOTH, retries=retries).bad_nodes) == bad


@pytest.mark.parametrize(
    ("others", "bad"),
    [
        ([{"node": "n2", "healthy": None}], []),
        ([{"node": "n2", "healthy": None}, {"node": "n3", "healthy": True}], ["n1"]),
    ],
)
def test_a_report_names_bad_nodes_only_beside_a_healthy_one(
    others: list[dict[str, object]], bad: list[str]
) -> None:
    content = {"schema": 1, "verdict": "bad", "nodes": [finding("n1", "slow"), *others]}
    found = findings(json.dumps(content).encode())
    assert (list(found.bad), found.busy) == (bad, {})


def test_the_nodes_of_all_runs_of_a_job_are_printed(tmp_path: Path) -> None:
    runs = [[finding(f"n{number}", f"fault {number}")] for number in (1, 3, 4)]
    text = "\n".join(lines(report_of(tmp_path, "n[4-5]", *runs, retries=True)))
    assert "why: not your code: node n1: fault 1; and 2 more nodes: n3, n4" in text
    for number in (1, 3, 4):
        assert f"bad node n{number}: fault {number}" in text


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
def test_a_job_that_starts_again_names_the_bad_nodes_of_its_earlier_runs(tmp_path: Path, state: str) -> None:
    found = report_of(tmp_path, "", [finding("n1", "slow")], retries=True, state=state)
    assert "  bad node n1: slow" in lines(found)


def test_a_bad_node_is_named_beside_another_cause_of_the_failure(tmp_path: Path) -> None:
    found = report_of(tmp_path, "n[3-4]", [finding("n1", "slow")], retries=True, state="OUT_OF_MEMORY")
    other = structs.replace(found, why=Why("a rank ran out of memory", ""))
    assert "  bad node n1: slow" in lines(other)


def test_the_only_bad_node_that_is_the_cause_of_the_failure_is_named_once(tmp_path: Path) -> None:
    text = "\n".join(lines(report_of(tmp_path, "n[1-2]", [finding("n1", "slow")])))
    assert text.count("slow") == 1


def test_a_busy_node_is_the_cause_of_a_failure_but_not_remembered(tmp_path: Path) -> None:
    found = report_of(tmp_path, "n[1-2]", [finding("n1", PORT, busy=True)])
    assert not found.bad_nodes
    assert found.why is not None
    assert found.why.what == f"not your code: node n1: {PORT}"
    assert found.why.todo.startswith("Submit it again")


def pending(reason: str, excluded: str) -> list[str]:
    state = JobState(id="12", state="PENDING", reason=reason, excluded=excluded)
    job = Job(JobId("12"), Route(site="daic", via="local"), RECORD)
    return list(lines(Report(job=job, state="PENDING", states=(state,))))


@pytest.mark.parametrize(
    ("reason", "excluded", "has_advice"),
    [("Priority", "n[1-2]", False), ("BadConstraints", "n[1-2]", True), ("BadConstraints", "", False)],
)
def test_a_pending_job_names_the_nodes_that_it_excludes_and_what_to_do_without_others(
    reason: str, excluded: str, has_advice: bool
) -> None:
    shown = pending(reason, excluded)
    assert (f"  excludes: {excluded}" in shown) == bool(excluded)
    advice = [line for line in shown if line.startswith("  do: ") and "--no-exclude-bad-nodes" in line]
    assert ["slurmgen cancel 12" in line for line in advice] == [True] * has_advice


def test_a_refused_job_that_excludes_nodes_says_how_to_use_them(project: Path) -> None:
    job = load_job("train", "daic", project)
    route = Route(site="daic", via="ssh", host="h")
    (prepared,) = prepare_job(job, job.plan(), route, How())
    refusal = CommandFailed("sbatch: Requested node configuration is not available", "Request less.")
    assert "--no-exclude-bad-nodes" in (advised(refusal, prepared).hint or "")


@pytest.mark.parametrize(
    ("state", "ran_on", "cleared"),
    [("COMPLETED", "n[1-2]", ["n1"]), ("COMPLETED", "n[3-4]", []), ("FAILED", "n[1-2]", [])],
)
def test_a_check_that_completes_clears_the_nodes_that_it_ran_on(
    state: str, ran_on: str, cleared: list[str]
) -> None:
    remember("n1")
    assert cleared_by_check(state=state, ran_on=ran_on).cleared == tuple(cleared)
    assert names(BadNodes().current(DAIC)) == ([] if cleared else ["n1"])


def cleared_by_check(
    state: str = "COMPLETED",
    ran_on: str = "n[1-2]",
    nodes: int = 2,
    *,
    all_gpus: bool = True,
    torch: bool = True,
) -> Checked:
    """What a job clears that only checks nodes."""
    Ledger().add(structs.replace(RECORD, final=states_text((JobState(id="12", state=state, nodes=ran_on),))))
    scope = Scope(nodes=nodes, all_gpus=all_gpus, with_torch=torch)
    return clear_healthy(RECORD, Route(site="daic", via="local"), scope)


def add(*checks: str, node: str = "n1", job: str = "12") -> None:
    """Remember a report of this moment."""
    BadNodes().add([structs.replace(report(node, job, now=datetime.now(UTC)), checks=checks)])


ALONE = {"ran_on": "n1", "nodes": 1}


@pytest.mark.parametrize(
    ("bad", "job", "unseen"),
    [
        *(
            ({"n1": ("product", check)}, ALONE, {"n1": (check,)})
            for check in ("slow", "link", "clock", "latency", "gpu-type", "gpu-power", "memory")
        ),
        ({"n1": ("slow", "link")}, {}, {}),
        ({"n1": ("slow",), "n2": ("slow",)}, {}, {"n1": ("slow",), "n2": ("slow",)}),
        ({"n1": ("gpu-ecc",)}, {"all_gpus": False}, {"n1": ("gpu-ecc",)}),
        (
            {"n1": ("gpu-count", "gpu-product", "gpu-link")},
            {"torch": False},
            {"n1": ("gpu-product", "gpu-link")},
        ),
    ],
)
def test_a_node_is_cleared_only_of_what_the_check_could_see(
    bad: dict[str, tuple[str, ...]], job: dict[str, Any], unseen: dict[str, tuple[str, ...]]
) -> None:
    """Only a comparison with a healthy node finds some faults; others need all GPUs, or PyTorch."""
    for node, checks in bad.items():
        add(*checks, node=node)
    found = cleared_by_check(**job)
    assert (found.cleared, found.unseen) == (tuple(sorted({*bad} - {*unseen})), unseen)
    assert names(BadNodes().current(DAIC)) == list(unseen)


def test_a_report_that_was_not_checked_stays_when_another_one_is_cleared() -> None:
    add("product", job="13")
    add("slow", job="14")
    assert cleared_by_check(ran_on="n1", nodes=1).unseen == {"n1": ("slow",)}
    assert [one.job for one in BadNodes().reports(DAIC)] == ["14"]


def test_the_report_of_a_job_keeps_the_names_of_its_checks(tmp_path: Path) -> None:
    remember_reported([report_of(tmp_path, "n[1-2]", [finding("n1", "slow")])])
    assert [one.checks for one in BadNodes().current(DAIC)] == [("slow",)]


@pytest.mark.parametrize("newest", ["", "13"])
def test_a_node_that_the_user_reported_stays_when_the_report_of_a_job_is_cleared(newest: str) -> None:
    now = datetime.now(UTC)
    for job in ("", "13"):
        age = timedelta(hours=0 if job == newest else 1)
        BadNodes().add([report("n1", job, now=now - age)])
    found = cleared_by_check()
    assert (found.cleared, found.by_hand) == ((), ("n1",))
    assert [one.job for one in BadNodes().reports(DAIC)] == [""]


def test_a_clear_by_hand_removes_all_reports_of_a_node(slurmgen: Run, tmp_path: Path) -> None:
    add("slow")
    add("slow", job="")
    assert slurmgen("nodes", "--clear", "n1", cwd=tmp_path).stderr == "no bad node is remembered\n"


def test_the_nodes_of_a_twin_are_named_by_the_option_of_other_commands(slurmgen: Run, tmp_path: Path) -> None:
    on_twin = ("nodes", "--site", "daic", "--via", "twin", "--json")
    slurmgen(*on_twin, "--add", "n1", "--because", "slow", cwd=tmp_path)
    (node,) = json.loads(slurmgen(*on_twin, cwd=tmp_path).stdout)["nodes"]
    assert (node["node"], node["twin"]) == ("n1", True)
    assert json.loads(slurmgen("nodes", "--site", "daic", "--json", cwd=tmp_path).stdout)["nodes"] == []
