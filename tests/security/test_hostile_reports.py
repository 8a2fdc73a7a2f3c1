"""Hostile reports of preflights: nothing of them reaches a shell, a directive or a terminal."""

import json
import os
from pathlib import Path

import pytest

from slurmgen import Request, load_site, render, resolve
from slurmgen.ledger.bad_nodes import LONGEST, BadNodes, Place, bad_node
from slurmgen.remote.local import LocalTransport
from slurmgen.remote.transport import Completed
from slurmgen.status.preflight_reports import (
    MAX_NODES,
    MAX_REPORT,
    MAX_REPORTS,
    Finding,
    Found,
    findings,
    read,
)
from tests.conftest import Run

EVIL = "\x1b]0;pwned\x07a\x9b2J\u202eb\n#SBATCH --wrap=id\r::error::x ##[add-mask]y $(id) `id` '\""


SLOW = Finding("slow", ("c",))
FOUND = Found({"n1": SLOW})


def node(
    name: object = "n1", text: object = "slow", *, check: object = "c", healthy: object = False
) -> dict[str, object]:
    return {"node": name, "healthy": healthy, "findings": [{"check": check, "text": text}]}


def evil_finding(times: int = 1) -> str:
    """What is kept of a finding that is an attack."""
    (found,) = findings(report(node(text=EVIL * times), node("ok", healthy=True))).bad.values()
    return found.text


def report(*nodes: object, **other: object) -> bytes:
    return json.dumps({"schema": 1, "verdict": "bad", "nodes": nodes, **other}).encode()


def test_an_honest_report_names_its_bad_nodes() -> None:
    found = findings(report(node(), node("n2", healthy=True)))
    assert found == FOUND


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"[" * 200_000,
        b'{"schema": 1, "verdict": "bad", "nodes": ' + b'{"nodes":' * 100_000,
        report(node(), schema=2),
        report(node(), schema="1"),
        report(node(), verdict="\x1b"),
        report(node(), nodes={"n1": False}),
        report(node(healthy="no")),
        report(node(text=7)),
        report(node(check="a,b")),
        report({"node": "n1", "healthy": False, "findings": [{"check": "c", "text": "t"}] * 1000}),
        report(node(None)),
        report("n1"),
        *map(
            report,
            map(node, ["", "-n1", "n1,n2", "n[1-9]", "n 1", "n1\n", "n1;id", "$(id)", "ALL", "é1"][:8]),
        ),
        report(node("n" * 64)),
        report(node("n1\x00")),
        report(node(), node("n2")),
        report(node(), verdict="healthy"),
    ],
)
def test_a_report_of_another_form_is_ignored(data: bytes) -> None:
    assert findings(data) == Found()


def test_a_finding_is_one_short_line_without_control_characters() -> None:
    text = evil_finding(1000)
    assert text.isprintable()
    assert len(text) == LONGEST
    assert "##[" not in text


def test_a_report_names_only_so_many_nodes() -> None:
    many = [node(f"n{number}") for number in range(10_000)]
    assert len(findings(report(*many, node("ok", healthy=True))).bad) == MAX_NODES


def test_a_hostile_finding_stays_a_comment_in_a_script() -> None:
    text = evil_finding()
    request = Request(exclude=(f"n1={bad_node(Place('daic'), 'n1', text, '12').reason}",))
    plain, script = (render(resolve(one, load_site("generic"))) for one in (Request(), request))
    added = [line for line in script.splitlines() if line not in plain.splitlines()]
    assert [line.partition(" ")[0] for line in added] == ["#", "#", "#SBATCH"]
    assert added[2] == "#SBATCH --exclude=n1"


def test_a_hostile_finding_is_listed_without_control_characters(slurmgen: Run, tmp_path: Path) -> None:
    text = evil_finding()
    BadNodes().add([bad_node(Place("daic"), "n1", text, EVIL)])
    for option in ([], ["--json"]):
        shown = slurmgen("nodes", *option, cwd=tmp_path).stdout
        assert shown.replace("\n", "").isprintable()


def test_only_so_much_of_a_folder_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "run; id"
    folder.mkdir()
    for number in range(MAX_REPORTS + 5):
        (folder / f".preflight-{number:02}.json").write_bytes(report(node(f"n{number}")))
    (found,) = read(LocalTransport(), [str(folder)])
    assert list(found.bad) == [f"n{number}" for number in range(MAX_REPORTS)]


def test_healthy_reports_do_not_hide_a_bad_one(tmp_path: Path) -> None:
    for number in range(MAX_REPORTS + 5):
        (tmp_path / f".preflight-{number:02}.json").write_bytes(report(node(healthy=True), verdict="healthy"))
    (tmp_path / ".preflight-99.json").write_bytes(report(node("n9"), node("n1", healthy=True)))
    assert read(LocalTransport(), [str(tmp_path)]) == [Found({"n9": SLOW})]


def test_other_files_do_not_hide_a_report(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    (first / ".preflight-1.json").mkdir()
    os.mkfifo(first / ".preflight-2.json")
    (first / ".preflight-3.json").write_bytes(b"\0" * 9 + report(node("n1")) + b"\0" * 9)
    with (first / ".preflight-4.json").open("wb") as large:
        large.truncate(MAX_REPORT * 1000)
    (second / ".preflight-1.json").write_bytes(report(node("n2")))
    none = tmp_path / "none"
    found = read(LocalTransport(), [str(first), str(none), str(second)])
    assert found == [FOUND, Found(), Found({"n2": SLOW})]


@pytest.mark.parametrize("reply", [b"", b"\0" * 1_000_000, b".\0" * 1_000_000, b"r{}\0", os.urandom(1 << 20)])
def test_a_hostile_reply_names_no_node(reply: bytes) -> None:
    class Liar(LocalTransport):
        def run(self, *_args: object, **_options: object) -> Completed:
            return Completed(0, reply, b"")

    assert read(Liar(), ["/a", "/b"]) == [Found(), Found()]
