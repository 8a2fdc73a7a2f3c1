"""where: refusals, estimates and prices of several sites, each asked by one login within a time limit."""

import json
import os
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from slurmgen import load_job
from slurmgen.errors import ConnectionFailed
from slurmgen.remote.local import LocalTransport
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Transport
from slurmgen.submit.where import Option, ask, ask_all, place
from tests.conftest import Run
from tests.support.sshd import Server
from tests.support.twins import Testbed

LAB = """
name = "lab"
title = "Lab"
[node]
gpus = 4
cpus = 64
memory = "200G"
[charge]
unit = "SU"
per = "gpu"
rate = 3
[partitions.main]
default = true
max_time = "1-00:00:00"
[partitions.short]
max_time = "00:30:00"
[partitions.cpu]
max_gpus = 0
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "slurmgen.toml").write_text('[job.train]\nscript = "train.py"\nframework = "ddp"\ngpus = 2\n')
    (tmp_path / "site_profiles").mkdir()
    (tmp_path / "site_profiles/lab.toml").write_text(LAB)
    return tmp_path


def test_sites_are_listed_with_their_estimates_or_the_reason_why_there_is_none(
    project: Path, slurmgen: Run, testbed: Testbed
) -> None:
    env = {**os.environ, "XDG_STATE_HOME": testbed.environ["XDG_STATE_HOME"]}
    words = ("where", "train", "--site", "lab", "--site", "generic", "--via", "twin", "--time", "2:00:00")
    reply = slurmgen(*words, "--json", cwd=project, env=env)
    assert reply.returncode == 0, reply.stderr
    printed = json.loads(reply.stdout)
    assert printed["can_run"] is True
    first, down, short = printed["options"]
    assert (first["site"], first["gpus"], first["refused"], first["error"]) == ("generic", 2, "", "")
    assert first["start"].endswith("+00:00")
    assert 0 <= first["wait"] < 60
    assert first["free_gpus"] is None or first["free_gpus"] >= 0
    assert (down["site"], down["partition"], down["charge"]) == ("lab", "main", "12 SU")
    assert "no twin of lab runs" in down["error"]
    assert short["partition"] == "short"
    assert "partition short allows 00:30:00" in short["refused"]

    shown = slurmgen(*words, cwd=project, env=env)
    lines = shown.stdout.splitlines()
    assert lines[0].split() == ["SITE", "PARTITION", "START", "(ESTIMATE)", "FREE", "NOW", "PENDING", "PRICE"]
    assert lines[1].startswith("generic")
    assert "12 SU" in shown.stdout
    assert "Slurm's estimates" in lines[-1]

    refused = slurmgen(*words[:2], *words[4:], "--partition", "nosuch", cwd=project, env=env)
    assert refused.returncode == 1
    assert "Slurm: invalid partition specified: nosuch" in refused.stdout


def test_a_site_is_asked_by_one_login(
    project: Path, slurmgen: Run, login_node: Server, testbed: Testbed, tmp_path: Path
) -> None:
    log = login_node.folder / "sshd.log"
    before = log.read_text().count("Accepted publickey")
    way = ("--host", "far", "--ssh-config", login_node.config(tmp_path))
    reply = slurmgen("where", "train", "--site", "generic", *way, "--json", cwd=project)
    assert reply.returncode == 0, reply.stdout + reply.stderr
    assert log.read_text().count("Accepted publickey") == before + 1


def test_the_login_of_each_site_is_its_own(project: Path, slurmgen: Run) -> None:
    reply = slurmgen("where", "train", "--site", "lab", "--site", "generic", "--host", "h", cwd=project)
    assert (reply.returncode, reply.stdout) == (2, "")
    assert "--host h cannot be the login host of 2 sites" in reply.stderr


def test_a_site_that_does_not_reply_in_time_hides_no_other(project: Path) -> None:
    job = load_job("train", "generic", project)
    places = [place(job, Route(site=name, via="ssh", host=name)) for name in ("slow", "broken", "fast")]
    places = [
        structs.replace(
            one,
            candidates=tuple(
                (structs.replace(option, site=one.route.site), script) for option, script in one.candidates
            ),
        )
        for one in places
    ]
    release = threading.Event()
    start = "sbatch: Job 1 to start at 2026-11-23T05:00:00 using 2 processors on nodes n1 in partition main"
    replying = Replying("1795406400", "+0000", "", "", "0\n", start)

    def connect(route: Route) -> Any:
        if route.site == "slow":
            release.wait(60)
        if route.site != "fast":
            raise ConnectionFailed("no route to host")
        return nullcontext(replying)

    found = ask_all(places, connect, limit=4)
    release.set()
    assert [one.site for one in found] == ["fast", "broken", "slow"]
    fast, broken, slow = found
    assert (fast.can_run, broken.error, slow.error) == (
        True,
        "no route to host.",
        "it did not reply within 4 seconds",
    )


def test_a_site_whose_connection_breaks_is_asked_once_more(project: Path, testbed: Testbed) -> None:
    spec = load_job("train", "generic", project)
    broken = iter([ConnectionFailed("the connection broke")])

    def connect(_: Route) -> Transport:
        for error in broken:
            raise error
        return LocalTransport(testbed.twin.environ())

    (found,) = ask_all([place(spec, Route(site="generic", via="twin"))], connect)
    assert found.error == ""


def test_options_are_in_order_of_their_start() -> None:
    options = [
        Option(site="a", refused="no"),
        Option(site="b"),
        Option(site="c", wait=60),
        Option(site="d", wait=0),
        Option(site="e", error="down"),
    ]
    from slurmgen.submit.where import _rank

    assert [one.site for one in sorted(options, key=_rank)] == ["d", "c", "b", "e", "a"]


class Replying:
    """A login node whose reply is known."""

    where, shell = "login", ("sh", "-c")

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def run(self, *_args: object, **_options: object) -> object:
        from slurmgen.remote.transport import Completed

        return Completed(
            0, b"\0slurmgen answers\0" + b"".join(text.encode() + b"\0" for text in self.texts), b""
        )


@pytest.mark.parametrize(
    ("zone", "start", "utc", "wait"),
    [
        ("+0100", "2026-11-23T06:00:00", "2026-11-23T05:00:00+00:00", 3600),
        ("-0330", "2026-11-23T00:30:00", "2026-11-23T04:00:00+00:00", 0),
        ("odd", "2026-11-23T05:00:00", "2026-11-23T05:00:00+00:00", 3600),
        ("+0000", "N/A", "", None),
    ],
)
def test_estimates_of_sites_in_other_time_zones_are_comparable(
    project: Path, zone: str, start: str, utc: str, wait: int | None
) -> None:
    now = "1795406400"  # 2026-11-23T04:00:00 UTC
    job = load_job("train", "generic", project)
    candidates = place(job, Route(site="generic", via="local")).candidates
    text = f"sbatch: Job 1 to start at {start} using 2 processors on nodes n1 in partition main"
    (option,) = ask(Replying(now, zone, "", "", "0\n", text), candidates)  # type: ignore[arg-type]
    assert (option.start, option.wait) == (utc, wait)
    (killed,) = ask(Replying(now, zone, "", "", "137\n", ""), candidates)  # type: ignore[arg-type]
    assert not killed.can_run
    assert killed.error
