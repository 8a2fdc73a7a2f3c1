"""A twin refuses, by accounting, the jobs that its site refuses."""

import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from threading import Timer
from time import sleep
from unittest.mock import patch

import pytest
from msgspec import structs

from slurmgen.errors import TwinError
from slurmgen.sites.model import Account, Limits, Partition, Qos, Site
from slurmgen.sites.profiles import load_site
from slurmgen.twin import daemons, installation, store, up
from slurmgen.twin.accounting import (
    gpu_limits,
    job_submit_lua,
    needed,
    partition_qos,
    registration,
    slurmdbd_conf,
)
from slurmgen.twin.configuration import slurm_conf
from slurmgen.twin.daemons import Daemon, command_line
from tests.support.twins import Testbed, eventually, twin
from tests.twin.test_twin_config import layout

TwinOf = Callable[[str], Testbed]


def sbatch(testbed: Testbed, *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["sbatch", "--test-only", *options, "--wrap=true"],
        env=testbed.environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(
    ("site", "options", "reason"),
    [
        ("leonardo", "--qos=boost_qos_dbg --time=31", "QOSMaxWallDurationPerJobLimit"),
        ("leonardo", "--qos=nope", "Invalid qos specification"),
        ("marenostrum5-acc", "--time=60", "Invalid qos specification"),
        ("mahti", "--partition=gpusmall --gres=gpu:4 --time=10", "QOSMaxGRESPerJob"),
        ("lumi-g", "--partition=standard-g --gpus=4 --time=10", "QOSMinGRES"),
        ("olivia", "--nodes=2 --gpus=8 --qos=devel --time=3:00:00", "QOSMaxWallDurationPerJobLimit"),
    ],
)
def test_slurm_refuses_what_the_site_refuses(site: str, options: str, reason: str, twin_of: TwinOf) -> None:
    refused = sbatch(twin_of(site), *options.split())
    assert refused.returncode == 1
    assert reason in refused.stderr


@pytest.mark.parametrize(
    ("site", "options"),
    [
        ("leonardo", "--qos=boost_qos_dbg --time=30"),
        ("leonardo", "--qos=boost_qos_lprod --time=4-0"),
        ("leonardo", "--account=anything"),
        ("marenostrum5-acc", "--qos=acc_debug --time=60"),
        ("mahti", "--partition=gpusmall --gres=gpu:2 --time=10"),
        ("lumi-g", "--partition=standard-g --nodes=1 --gpus=8 --time=10"),
        ("olivia", "--nodes=2 --gpus=8 --qos=devel --time=2:00:00"),
    ],
)
def test_slurm_accepts_what_the_site_accepts(site: str, options: str, twin_of: TwinOf) -> None:
    accepted = sbatch(twin_of(site), *options.split())
    assert accepted.returncode == 0, accepted.stderr


def test_only_the_named_accounts_are_accepted() -> None:
    with twin("daic", nodes=1, accounts=["ewi-insy-prb", "ewi-insy"]) as testbed:
        assert sbatch(testbed, "--account=ewi-insy").returncode == 0
        wrong, none = sbatch(testbed, "--account=theirs"), sbatch(testbed)
    assert "Invalid account" in wrong.stderr
    assert "daic: a job must name its account (--account)" in none.stderr
    assert "Invalid account" in none.stderr


def test_accounting_reports_an_ended_job(twin_of: TwinOf) -> None:
    testbed = twin_of("leonardo")
    job = testbed.run("sbatch", "--parsable", "--wait", "--qos=boost_qos_dbg", "--time=1", "--wrap=true")
    asked = ("sacct", "-XnP", f"--jobs={job.strip()}", "--format=State,QOS,Partition")
    for _ in range(60):  # the end of a job may arrive before its start
        if (rows := testbed.run(*asked)) == "COMPLETED|boost_qos_dbg|boost_usr_prod\n":
            return
        sleep(1)
    pytest.fail(rows)


def test_a_twin_without_mariadb_reports_what_it_does_not_enforce(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "DATABASE_PROGRAMS", ("mariadbd-that-is-missing",))
    with twin("leonardo", nodes=1) as testbed:
        assert sbatch(testbed, "--qos=nope").returncode == 0
        notes = " ".join(testbed.twin.assumptions)
    assert "any --qos is accepted, normal, boost_qos_dbg" in notes
    assert "mariadb-server" in notes


@pytest.mark.parametrize(
    ("site", "is_needed"),
    [
        (Site(name="x"), False),
        (Site(name="x", account=Account(required=True)), False),
        (Site(name="x", partitions={"cpu": Partition(max_gpus=0)}), False),
        (Site(name="x", partitions={"gpu": Partition(max_nodes=2, max_time="1:00:00")}), False),
        (Site(name="x", partitions={"gpu": Partition(max_gpus=2)}), True),
        (Site(name="x", qos={"debug": Qos()}), True),
        (Site(name="x", limits=Limits(max_jobs=3)), False),
        (Site(name="x", limits=Limits(max_time="1:00:00", max_nodes=2)), False),
        (Site(name="x", limits=Limits(max_gpus=3)), True),
    ],
)
def test_only_a_site_with_limits_that_slurm_conf_cannot_have_needs_accounting(
    site: Site, is_needed: bool
) -> None:
    assert needed(site) is is_needed


@pytest.mark.parametrize("account", ["a b", "a,b", "", "x=y", "-x"])
def test_an_account_with_an_invalid_name_is_rejected(account: str) -> None:
    with pytest.raises(TwinError, match="is not a valid account"):
        needed(Site(name="x"), (account,))


def test_the_limits_of_a_profile_become_settings_of_sacctmgr() -> None:
    here = layout(load_site("olivia"), accounting=True)
    assert list(registration(here)) == [
        "add cluster olivia",
        "modify qos where name=normal set Flags=DenyOnLimit",
        "add qos devel Flags=DenyOnLimit MaxWall=02:00:00",
        "add qos partition_accel Flags=DenyOnLimit",
    ]
    assert list(gpu_limits(here)) == [
        "modify qos where name=devel set MaxTRESPerJob=gres/gpu=16",
        "modify qos where name=partition_accel set MaxTRESPerJob=gres/gpu=32 MinTRESPerJob=gres/gpu=1",
    ]
    assert partition_qos("small", load_site("olivia").partitions["small"]) is None


def test_a_twin_with_accounting_from_a_slow_start_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files are private, restarts are waited for, and the temporary tables of others stay."""

    def start(daemon: Daemon) -> None:
        real(daemon)
        if daemon.name == "slurmctld":  # it has read the accounts, and does not listen yet
            log = Path(daemon.log_file)
            while "Reinitializing job accounting state" not in log.read_text():
                sleep(0.001)
            os.kill(daemon.pid or 0, signal.SIGSTOP)
            Timer(2.0, os.kill, (daemon.pid, signal.SIGCONT)).start()

    real = daemons.start
    monkeypatch.setattr(daemons, "start", start)
    other = Path("/tmp", f"#sql-temptable-{os.getpid()}.MAI")
    other.touch()
    with twin("saga", nodes=1) as testbed:
        monkeypatch.undo()
        accepted = sbatch(testbed, "--account=anything", "--partition=a100", "--gpus=1", "--time=10")
        assert accepted.returncode == 0, accepted.stderr
        conf, run = testbed.twin.folder / "slurmdbd.conf", testbed.twin.run
        assert conf.stat().st_mode & 0o777 == 0o600
        killed = [one for one in testbed.twin.daemons if one.name in ("mariadbd", "slurmdbd")]
        assert len(killed) == 2
        for daemon in killed:
            os.kill(daemon.pid or 0, signal.SIGKILL)
        eventually(lambda: all(one.pid is None for one in killed))
        with patch.dict(os.environ, testbed.environ):
            up(load_site("saga"), 1)
        assert "devel" in testbed.run("sacctmgr", "--noheader", "show", "qos", "format=name%30")
        pids = [daemon.pid for daemon in testbed.twin.daemons]
    assert other.exists()
    other.unlink()
    assert not run.exists()
    assert not [pid for pid in pids if command_line(pid or 0)]


def test_a_user_name_with_capitals_has_an_account() -> None:
    text = slurmdbd_conf(layout(load_site("saga")))
    assert "Parameters=PreserveCaseUser" in text.splitlines()


def test_a_twin_whose_start_was_interrupted_is_started_anew() -> None:
    with twin("saga", nodes=1) as testbed:
        before = {daemon.pid for daemon in testbed.twin.daemons}
        with patch.dict(os.environ, testbed.environ):
            store.save(structs.replace(testbed.twin, is_complete=False))
            again = up(load_site("saga"), 1)
        assert before.isdisjoint(daemon.pid for daemon in again.daemons)


def test_the_time_and_nodes_of_every_job_are_limits_of_the_partitions() -> None:
    parts = {"short": Partition(max_time="1:00:00", max_nodes=1), "usual": Partition()}
    text = slurm_conf(
        layout(Site(name="x", limits=Limits(max_time="2:00:00", max_nodes=3), partitions=parts))
    )
    assert re.findall(r"PartitionName=(\w+) .*MaxTime=(\S+) MaxNodes=(\d+)", text) == [
        ("short", "1:00:00", "1"),
        ("usual", "2:00:00", "3"),
    ]


def test_jobs_are_charged_to_the_usual_account_if_any_is_accepted() -> None:
    assert 'job.account = "twin"' in job_submit_lua(layout(load_site("olivia"), accounting=True))
