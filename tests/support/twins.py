"""Twins for tests: each in folders of its own, so that the user's are never touched.

with twin("daic", ssh=True) as testbed:
    log = testbed.batch("#!/bin/bash\\nsrun hostname\\n")
    testbed.run("sinfo")

They run the Slurm of this machine, or the release in the variable TWIN_SLURM, such as 24.11.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

from slurmgen import twin as twins
from slurmgen.sites.model import Site
from slurmgen.sites.profiles import load_site
from slurmgen.twin import Twin, installation
from slurmgen.twin.installation import Installation, find
from tests.support.ports import share

Found = TypeVar("Found")
USERS_OWN = dict(os.environ)
"The environment before any test changed it; it names the user's cache, which keeps an installed Slurm."
NOT_ENDED = {"PENDING", "CONFIGURING", "RUNNING", "SIGNALING", "COMPLETING", "REQUEUED"}
"States of a job that will run, or does."
WITHOUT_OTHERS = ("SLURM", "SBATCH", "SQUEUE", "XDG_", "OMP_")
PATIENCE = 300.0
"Seconds; on a busy machine, all that takes a moment may take a minute."


@dataclass(frozen=True)
class Testbed:
    """A running twin, and the environment for its commands."""

    __test__ = False

    twin: Twin
    environ: dict[str, str]
    folder: Path

    def run(self, *argv: str, **more: str) -> str:
        """The output of a command, which must succeed. `more` are further variables."""
        if "PATH" in more:
            more["PATH"] = slurm().path(more["PATH"])
        reply = subprocess.run(
            argv, env=self.environ | more, cwd=self.folder, capture_output=True, text=True, timeout=300
        )
        assert reply.returncode == 0, f"{argv}: {reply.stdout}{reply.stderr}"
        return reply.stdout

    def tried(self, *argv: str) -> str:
        """The standard output of a command, whether it succeeds or not."""
        return subprocess.run(
            argv, env=self.environ, cwd=self.folder, capture_output=True, text=True, timeout=300, check=False
        ).stdout

    def batch(self, script: str, *options: str, **more: str) -> str:
        """Submit a script, wait until its job has completed, and return its log."""
        (self.folder / "job.sh").write_text(script)
        job = self.run("sbatch", "--parsable", "--output=%j.log", *options, "job.sh", **more).strip()
        state = self.wait(job)
        log = (self.folder / f"{job}.log").read_text()
        assert state == "COMPLETED", f"{state}:\n{log}"
        return log

    def wait(self, job: str, seconds: float = PATIENCE) -> str:
        """The state that a job ends in; GONE if Slurm has forgotten it."""
        return eventually(lambda: self._ended(job), seconds)

    def _ended(self, job: str) -> str | None:
        """A job's last state; None if it has not ended."""
        argv = ["squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}"]
        reply = subprocess.run(
            argv, env=self.environ, cwd=self.folder, capture_output=True, text=True, timeout=300
        )
        if "Invalid job id" in reply.stderr:
            return "GONE"
        assert reply.returncode == 0, reply.stderr
        states = reply.stdout.split() or ["GONE"]  # one for each task of an array
        return None if NOT_ENDED.intersection(states) else states[0]


def eventually(seen: Callable[[], Found | None], seconds: float = PATIENCE) -> Found:
    """The first true value of a function, which is called until then; fails after a time limit."""
    deadline = time.monotonic() + seconds
    while not (found := seen()):
        assert time.monotonic() < deadline, f"nothing was seen in {seconds:g} seconds"
        time.sleep(0.1)
    return found


def environment(folder: Path) -> dict[str, str]:
    """This process's environment without variables of Slurm, and with user folders below `folder`."""
    own = {f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("STATE", "CONFIG", "CACHE", "DATA")}
    return {name: text for name, text in os.environ.items() if not name.startswith(WITHOUT_OTHERS)} | own


def settled(parent: Path) -> Path:
    """A project's folder on the cluster after the background work: a snapshot of the sent files, a spare.

    A process in this folder does it after the reply to a submission.
    """
    eventually(lambda: parent.resolve() not in working_folders())
    return parent


def working_folders() -> Iterator[Path]:
    """The folders that processes work in."""
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):  # it has ended, or is another user's
            yield link.readlink()


@cache
def slurm() -> Installation:
    """The Slurm that the twins of all tests run."""
    with patch.dict(os.environ, USERS_OWN, clear=True):
        return find(os.environ.get("TWIN_SLURM"))


@cache
def _shared_cache() -> tempfile.TemporaryDirectory[str]:
    """The cache of all twins of this process."""
    return tempfile.TemporaryDirectory(prefix="twin-cache-")


@contextmanager
def _own_ports() -> Iterator[None]:
    """Twins of this process take no port of one that another process starts at the same time."""
    ports = share(installation.FIRST_PORT, installation.LAST_PORT + 1)
    with patch.multiple(installation, FIRST_PORT=ports.start, LAST_PORT=ports.stop - 1):
        yield


@contextmanager
def twin(
    site: str | Site,
    *,
    nodes: int = 2,
    ssh: bool = False,
    gpu_type: str | None = None,
    accounts: Sequence[str] = (),
) -> Iterator[Testbed]:
    """A twin of a site, or of the bundled one of that name, that ends with the block."""
    profile = load_site(site) if isinstance(site, str) else site
    # The background work of a submission may still write there.
    with tempfile.TemporaryDirectory(prefix="twin-test-", ignore_cleanup_errors=True) as name:
        environ = environment(Path(name))
        shared = {"XDG_CACHE_HOME": _shared_cache().name}
        with patch.dict(os.environ, environ | shared, clear=True), _own_ports():
            started = twins.up(profile, nodes, ssh=ssh, gpu_type=gpu_type, slurm=slurm(), accounts=accounts)
        try:
            yield Testbed(started, environ | started.environ(), Path(name))
        finally:
            with patch.dict(os.environ, environ, clear=True):
                twins.down(profile.name)
