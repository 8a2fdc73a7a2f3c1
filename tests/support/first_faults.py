"""Kill clients that submit one job to the first of two sites, repeat the command, and count the jobs of both.

`python -m tests.support.first_faults 1000` counts that many; docs/reliability.md has the result.
"""

import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from slurmgen.job_spec import JobOptions, JobSpec, load_spec
from slurmgen.jobs import first
from slurmgen.jobs.ledger import Ledger, Record
from slurmgen.jobs.prepare import prepare
from slurmgen.jobs.recorded_request import with_request
from slurmgen.jobs.submission import submission
from slurmgen.jobs.where import Option
from slurmgen.remote.route import Route, open_route
from slurmgen.request import Request
from slurmgen.slurm.sbatch_options import SbatchOptions
from tests.support.twins import Testbed, twin

SITES = ("generic", "daic")
JOB = {
    "framework": "python",
    "script": "train.py",
    "gpus": 0,
    "time": "00:05:00",
    "account": "a",
    "python_env": "none",
}
HELD: SbatchOptions = {"hold": True}
LONGEST = 0.3
"Seconds after which a client is killed, at most; some have ended by then."


@contextmanager
def user_of(testbeds: Mapping[str, Testbed]) -> Iterator[Path]:
    """The folder of a user who has these twins, whose ledger is empty; this process becomes that user."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        twins = folder / "state/slurmgen/twin"
        twins.mkdir(parents=True)
        (folder / "state/slurmgen").chmod(0o700)
        for site, testbed in testbeds.items():
            (twins / site).symlink_to(testbed.twin.folder)
        project = folder / "project"
        project.mkdir()
        (project / "train.py").touch()
        environ = {"HOME": name, "XDG_STATE_HOME": str(folder / "state")}
        with patch.dict(os.environ, environ | {"XDG_CACHE_HOME": str(folder / "cache")}):
            yield project


def jobs_at(project: Path, name: str) -> dict[str, JobSpec]:
    """The job at each site."""
    request = Request(name=name, sbatch=HELD, **JOB)  # type: ignore[arg-type]
    return {site: load_spec(JobOptions(site=site, request=request), project) for site in SITES}


def submit(project: Path, name: str, preferred: str) -> Record:
    """One command: of the sites, `preferred` has the earlier estimate."""
    jobs = jobs_at(project, name)
    command = first.fingerprint([*jobs.values()])
    choice = first.earlier(command) or first.best([Option(site=preferred, wait=0)])
    job = jobs[choice.site]
    plan = job.plan()
    route = Route(site=choice.site, via="twin")
    prepared = with_request(prepare(plan, job.render(plan), route, project), job)
    prepared, entry = first.claim(prepared, command)
    with submission(prepared, lambda: open_route(route), entry=entry) as outcome:
        return outcome.record


def killed(project: Path, name: str, preferred: str, seconds: float) -> bool:
    """Run the command in a process of its own, and kill it after that time; whether it had not ended."""
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        code = 1
        try:
            submit(project, name, preferred)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    time.sleep(seconds)
    done, status = os.waitpid(child, os.WNOHANG)
    if done:
        assert not status, "the client failed"
        return False
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def trial(project: Path, testbeds: Mapping[str, Testbed], number: int, chance: random.Random) -> bool:
    """Kill one or two clients, then repeat; fails unless there is one job. Whether a client was killed.

    A client that was killed after it recorded the job has done its work: `status` shows the job, and the same
    command again is a new submission, as without --first.
    """
    name = f"first-{number}"
    struck = ended = False
    for _ in range(chance.choice((1, 1, 2))):
        was_killed = not ended and killed(project, name, chance.choice(SITES), chance.uniform(0, LONGEST))
        struck, ended = struck or was_killed, is_recorded(name)
    record = None if ended else submit(project, name, chance.choice(SITES))
    jobs = [(site, job) for site, testbed in testbeds.items() for job in jobs_of(testbed, name)]
    assert len(jobs) == 1, (number, jobs)
    entry = Ledger().last(name)
    assert entry and jobs == [(entry.site, entry.id)]  # noqa: PT018
    assert record is None or record.id == entry.id
    testbeds[jobs[0][0]].run("scancel", jobs[0][1])
    return struck


def is_recorded(name: str) -> bool:
    entry = Ledger().last(name)
    return entry is not None and not entry.pending


def jobs_of(testbed: Testbed, name: str) -> list[str]:
    return testbed.run("squeue", "--noheader", "--states=all", f"--name={name}", "--format=%A").split()


def main(count: int) -> None:
    with twin("generic") as generic, twin("daic", nodes=1) as daic:
        testbeds = {"generic": generic, "daic": daic}
        with user_of(testbeds) as project:
            chance, struck, began = random.Random(13), 0, time.monotonic()  # noqa: S311
            for number in range(count):
                struck += trial(project, testbeds, number, chance)
                if number % 50 == 49:
                    took = time.monotonic() - began
                    print(f"{number + 1} trials, {struck} with a killed client, {took:.0f} s", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]))
