"""Try a site profile: render, lint and check the script of each shape, and run a job on its twin."""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec.structs import replace

from slurmgen.errors import LimitExceeded, RequestError, TwinError
from slurmgen.lint import lint_text
from slurmgen.plan import resolve
from slurmgen.render import render
from slurmgen.request.model import NONE, Request
from slurmgen.sites.model import Site
from slurmgen.sites.nodes import SIX_SHAPES, SIZES, shape_request
from slurmgen.text import counted
from slurmgen.twin import Twin
from slurmgen.twin import lifecycle as twins
from slurmgen.twin.store import load, slurm

Result = Literal["passed", "refused", "failed"]
HELLO = "import os\nprint('rank', os.environ['SLURM_PROCID'])\n"
HELLO_SHAPES = (("lightning", "2nodes"), ("lightning", "node"), ("python", "1gpu"))
"Those that need no launcher but Python; the first that the site accepts says hello."
_NODES = 2
_SECONDS = 120.0
_ENDED_WELL = "COMPLETED"
_ACTIVE = {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING"}


class Trial(NamedTuple):
    """A shape of a job on a site, and its result."""

    shape: str
    result: Result
    reason: str = ""
    script: str = ""


def try_scripts(site: Site, options: Request) -> list[Trial]:
    """Plan, render and lint each shape; `options` override its request. A limit of the site refuses a shape.

    shellcheck reads the scripts too, if it is installed.
    """
    return [_try_script(site, framework, size, options) for framework, size in SIX_SHAPES]


def _try_script(site: Site, framework: str, size: str, options: Request) -> Trial:
    shape = f"{framework} on {SIZES[size]}"
    try:
        script = render(resolve(shape_request(site, framework, size, options), site))
    except LimitExceeded as error:
        return Trial(shape, "refused", error.fact)
    except RequestError as error:
        return Trial(shape, "failed", str(error))
    faults = [*_lint(script, site), *_shellcheck(script)]
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        return Trial(shape, "failed", faults[0] + more, script)
    return Trial(shape, "passed", script=script)


def _lint(script: str, site: Site) -> list[str]:
    return [
        f"{report.rule.code} in line {report.start.line}: {report.finding.message}"
        for report in lint_text(script, site)
    ]


def _shellcheck(script: str) -> list[str]:
    if not has_shellcheck():
        return []
    # --norc: a file of the current project must not hide findings.
    command = ["shellcheck", "--norc", "--severity=warning", "--format=gcc", "-"]
    reply = subprocess.run(command, input=script, capture_output=True, text=True, timeout=60, check=False)
    return [f"shellcheck, line {line.partition(':')[2]}" for line in reply.stdout.splitlines()]


def has_shellcheck() -> bool:
    """Whether shellcheck is installed."""
    return shutil.which("shellcheck") is not None


@contextmanager
def twin_of(site: Site) -> Iterator[Twin]:
    """The running twin of a site; one that does not run is started, and stopped at the end.

    Raises:
        TwinError: it did not start.
    """
    running = load(site.name)
    if running and running.is_running:
        yield running
        return
    started = twins.up(site, _NODES)
    try:
        yield started
    finally:
        twins.down(site.name)


def try_on_twin(trial: Trial, twin: Twin, folder: Path) -> Trial:
    """Let the Slurm of the twin check a script that has passed; it submits nothing."""
    if trial.result != "passed":
        return trial
    (folder / "job.sbatch").write_text(trial.script, encoding="utf-8")
    try:
        slurm(twin, "sbatch", "--test-only", f"--chdir={folder}", str(folder / "job.sbatch"))
    except TwinError as error:
        return trial._replace(result="failed", reason=error.fact)
    return trial


def try_hello(site: Site, options: Request, twin: Twin, folder: Path) -> Trial:
    """Run a job without GPU code on as many nodes as the site allows, at most two, and count its ranks."""
    refused = Trial("hello", "failed", "the site accepts none of its shapes")
    for framework, size in HELLO_SHAPES:
        shape = f"hello on {SIZES[size]}"
        request = shape_request(site, framework, size, options)
        try:
            plan = resolve(_as_hello(request, folder), site)
        except LimitExceeded as error:
            refused = Trial(shape, "failed", error.fact)
            continue
        except RequestError as error:
            return Trial(shape, "failed", str(error))
        reason = _run(render(plan), plan.world_size, twin, folder)
        ranks = f"{counted(plan.world_size, 'rank')} on {counted(plan.nodes, 'node')}"
        return Trial(shape, "failed", reason) if reason else Trial(shape, "passed", f"{ranks} of the twin")
    return refused


def _as_hello(request: Request, folder: Path) -> Request:
    bin_folder = folder / "bin"
    bin_folder.mkdir(exist_ok=True)
    with suppress(FileExistsError):
        (bin_folder / "python").symlink_to(sys.executable)
    (folder / "hello.py").write_text(HELLO, encoding="utf-8")
    env = {"PATH": f"{bin_folder}:$PATH"}
    return replace(request, script="hello.py", container=NONE, python_env=NONE, env=env, secrets=None)


def _run(script: str, ranks: int, twin: Twin, folder: Path) -> str:
    (folder / "hello.sbatch").write_text(script, encoding="utf-8")
    try:
        job = slurm(
            twin,
            *("sbatch", "--parsable", f"--chdir={folder}", f"--output={folder}/hello.log"),
            *(f"--error={folder}/hello.log", str(folder / "hello.sbatch")),
        ).partition(";")[0]
        state = _final_state(job, twin)
    except TwinError as error:
        return error.fact
    lines = _lines(folder / "hello.log")
    if state != _ENDED_WELL:
        return f"the job is {state}: {lines[-1] if lines else 'its log is empty'}"
    expected = {f"rank {rank}" for rank in range(ranks)}
    missing = expected.difference(lines)
    return f"{len(missing)} of {counted(ranks, 'rank')} did not print their number" if missing else ""


def _final_state(job: str, twin: Twin) -> str:
    """The state in which a job ends, or its state after the time limit, when it is cancelled."""
    deadline = time.monotonic() + _SECONDS
    state = ""
    try:
        while time.monotonic() < deadline:
            reply = slurm(twin, "squeue", "--noheader", "--states=all", "--format=%T %r", f"--jobs={job}")
            state, _, why = reply.partition(" ")
            if state not in _ACTIVE:
                return state
            time.sleep(0.2)
        return f"{state} after {_SECONDS:.0f} s ({why})"
    finally:
        if state in _ACTIVE:
            slurm(twin, "scancel", job)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
