"""Whatever breaks while a job is submitted, after a retry there is one job: counted in Slurm.

docs/reliability.md says what is tried here, and how often.
"""

import contextlib
import itertools
import os
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from slurmgen.errors import RemoteError, Unresolved
from slurmgen.remote.ssh import paramiko
from slurmgen.remote.ssh.config import destination
from slurmgen.remote.ssh.paramiko import connect
from slurmgen.remote.transport import Transport
from slurmgen.submit.exactly_once import Submission, Submitted, Timeouts, submit
from slurmgen.sync.files import snapshot
from slurmgen.sync.manifest import Sent, manifest, parent_folder
from slurmgen.twin import daemons
from tests.support.faults import STEPS, Direction, Fault, Proxy, Sbatch, proxy, sbatch
from tests.support.programs import write_programs
from tests.support.sshd import Server, privilege_separation_folder, sshd
from tests.support.twins import Testbed

TIMEOUTS = Timeouts(sbatch=4, grace=1, reply=60)
IMPATIENT = Timeouts(sbatch=4, grace=1, reply=2)
"Of a client on a stalled network."
SCRIPT = "#!/bin/bash\n#SBATCH --hold --output=%x-%j.out\nexit 0\n"
THREADS = 4
KINDS = ("new", "changed", "unchanged")
"What the remote host has of the project before."
numbers = itertools.count(1)


@dataclass(frozen=True)
class Site:
    """A login node with an sbatch that can break."""

    server: Server
    testbed: Testbed
    sbatch: Sbatch
    folder: Path

    def job(self, name: str, kind: str = "unchanged") -> "Job":
        return Job(self, f"{name}-{next(numbers)}", kind)

    def counted(self) -> Counter[str]:
        """The number of jobs in Slurm for each key."""
        rows = self.testbed.run("squeue", "--noheader", "--states=all", "--format=%k").split()
        return Counter(row.partition(":")[2] for row in rows if row.startswith("slurmgen:"))

    def clean(self) -> Transport:
        """A connection on which nothing breaks."""
        return connect(destination("far", self.server.config(_new(self.folder))))


@dataclass(frozen=True)
class Job:
    """One submission with a project of its own."""

    site: Site
    key: str
    kind: str

    def submission(self) -> tuple[Submission, Sent]:
        root = self.site.folder / "projects" / self.key
        if not root.exists():
            (root / "data").mkdir(parents=True)
            for number in range(20):
                (root / f"data/{number}").write_bytes(bytes(4000) + self.kind.encode())
            if self.kind == "changed":
                (root / "data/3").write_text(self.key)
            if self.kind == "new":
                (root / "random").write_bytes(os.urandom(100_000))
        files = snapshot(root)
        made = Submission(
            name="broken",
            script=SCRIPT,
            files=files,
            content=manifest(files),
            parent=parent_folder("sent", "p"),
            key=self.key,
            output="%x-%j.out",
            record="{}\n",
        )
        sent = Sent(self.site.folder / ("none" if self.kind == "new" else "sent"))
        return made, sent

    def submit(self, transport: Transport, timeouts: Timeouts = TIMEOUTS) -> Submitted:
        return submit(transport, *self.submission(), timeouts)

    def settled(self, transport: Transport) -> Submitted:
        """Repeat it until its job is known: a busy machine may need it twice, or a controller that starts."""
        for _ in range(10):
            try:
                return self.submit(transport)
            except RemoteError:
                continue
        return self.submit(transport)


def _new(folder: Path) -> Path:
    made = folder / f"client-{next(numbers)}"
    made.mkdir()
    return made


@pytest.fixture(scope="module")
def site(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    privilege_separation_folder()
    with sshd(tmp_path_factory.mktemp("broken"), testbed.twin.environ()) as server:
        wrapper = sbatch(server.home)
        (server.home / ".bash_profile").write_text('export PATH="$HOME/bin:$PATH"\necho hello\n')
        made = Site(server, testbed, wrapper, tmp_path_factory.mktemp("clients"))
        with made.clean() as transport:
            for kind in ("changed", "unchanged"):  # what those two kinds go from
                made.job("first", kind).settled(transport)
        yield made


def conversation(site: Site, kind: str) -> dict[Direction, int]:
    """The number of bytes in each direction when nothing breaks."""
    with proxy(site.server.port) as between:
        broken(site, between, site.job("measured", kind), TIMEOUTS)
        return between.passed


def broken(site: Site, between: Proxy, job: Job, timeouts: Timeouts) -> Submitted | RemoteError:
    """One try through the proxy, login included."""
    config = replace(site.server, port=between.port).config(_new(site.folder))
    try:
        with connect(destination("far", config)) as transport:
            return job.submit(transport, timeouts)
    except RemoteError as error:
        return error


def faults(site: Site) -> Iterator[tuple[str, Fault]]:
    """Each kind of submission, broken at bytes spread over all of its conversation."""
    many: dict[str, int] = {"cut": 27, "stall": 4, "delay": 4}
    for kind in KINDS:
        lengths = conversation(site, kind)
        for breaks, count in many.items():
            for direction, length in lengths.items():
                for number in range(count):
                    yield kind, Fault(breaks, direction, 1 + length * number // (count + 1))  # type: ignore[arg-type]


def one_job(site: Site, kind: str, fault: Fault) -> tuple[str, bool, str]:
    """Break one submission, then repeat it: its key, whether it broke, and the outcome of the first try."""
    job = site.job("cut", kind)
    with proxy(site.server.port) as between:
        between.fault = fault
        first = broken(site, between, job, IMPATIENT if fault.kind == "stall" else TIMEOUTS)
        struck = between.struck
    with retrying.connected(site) as transport:
        job.settled(transport)
    return job.key, struck, type(first).__name__


class Retrying(threading.local):
    """For each thread a connection on which nothing breaks: logging in again would only take time."""

    open: Transport | None = None

    def connected(self, site: Site) -> "Retrying":
        for _ in range(10):
            with contextlib.suppress(RemoteError):  # a busy machine, and short times for the stalled logins
                self.open = self.open or site.clean()
        return self

    def __enter__(self) -> Transport:
        assert self.open
        return self.open

    def __exit__(self, *_: object) -> None:
        pass


retrying = Retrying()


def test_a_network_that_breaks_at_any_byte_leaves_one_job_after_a_retry(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = list(faults(site))
    assert len(plan) >= 200
    monkeypatch.setattr(paramiko, "CONNECT_TIMEOUT", 2.0)
    monkeypatch.setattr(paramiko, "ANSWER_TIMEOUT", 2.0)
    with ThreadPoolExecutor(THREADS) as pool:
        done = list(pool.map(lambda one: one_job(site, *one), plan))
    counted = site.counted()
    assert {key: counted[key] for key, _, _ in done if counted[key] != 1} == {}
    outcomes = Counter(
        (fault.kind, outcome) for (_, fault), (_, struck, outcome) in zip(plan, done, strict=True) if struck
    )
    # The faults occurred, and some while the state of the job was unknown.
    assert sum(outcomes.values()) > 0.8 * len(plan), outcomes
    assert {("cut", "Unresolved"), ("stall", "Unresolved"), ("delay", "Submitted")} <= outcomes.keys()


@pytest.mark.parametrize("step", STEPS)
def test_an_sbatch_that_breaks_at_any_step_leaves_one_job_after_a_retry(site: Site, step: str) -> None:
    jobs = [site.job("step", kind) for kind in (*KINDS, "unchanged")]

    def run(job: Job) -> str:
        site.sbatch.next_time(job.key, step)
        with site.clean() as transport:
            try:
                first = type(job.submit(transport)).__name__
            except RemoteError as error:
                first = type(error).__name__
            job.settled(transport)
            # On a busy machine the first try may end before sbatch starts: the step occurs in the next one.
            assert site.sbatch.met(job.key)
            assert job.submit(transport).earlier
        return first

    with ThreadPoolExecutor(len(jobs)) as pool:
        first = list(pool.map(run, jobs))
    counted = site.counted()
    assert [counted[job.key] for job in jobs] == [1] * len(jobs), first


def test_the_same_submission_from_many_at_once_is_one_job(site: Site) -> None:
    jobs = [site.job("twice", "new") for _ in range(3)]

    def run(job: Job) -> str:
        with site.clean() as transport:
            return str(job.settled(transport).job)

    for job in jobs:
        job.submission()
        with ThreadPoolExecutor(5) as pool:
            assert len(set(pool.map(run, [job] * 5))) == 1
    counted = site.counted()
    assert [counted[job.key] for job in jobs] == [1] * 3


@pytest.mark.parametrize("step", ["hangs after", "killed after", "killed before", "times out after"])
def test_a_controller_that_is_down_makes_it_unknown_and_then_one_job(site: Site, step: str) -> None:
    job = site.job("restart")
    controller = next(one for one in site.testbed.twin.daemons if one.name == "slurmctld")
    site.sbatch.next_time(job.key, step)
    with site.clean() as transport:
        # The controller goes down after sbatch and before the job is queried.
        wrapper = write_programs(site.sbatch.bin, {"squeue": "exec false"}) / "squeue"
        try:
            with pytest.raises(Unresolved, match="is not known"):
                job.submit(transport)
        finally:
            wrapper.unlink()
        daemons.stop(controller)
        try:
            with pytest.raises(Unresolved, match="Slurm does not report whether it has the job"):
                job.submit(transport)
        finally:
            daemons.start(controller)
        job.settled(transport)
    assert site.counted()[job.key] == 1
