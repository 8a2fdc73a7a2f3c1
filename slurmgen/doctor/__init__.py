"""Pre-submission checks: the steps of a submission, each with a hint if it fails, over one login.

If a check fails, those that need it are skipped, and the others still run.
"""

from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct

from slurmgen.doctor import connection, remote_host, slurm_job
from slurmgen.doctor.visit import Doubtful, NotChecked, Visit
from slurmgen.errors import SlurmgenError

State = Literal["ok", "warning", "failed", "not checked"]


class Step(Struct, frozen=True, kw_only=True):
    """The result of one check."""

    name: str
    state: State
    fact: str
    "What was found, or why it was not checked."
    hint: str = ""
    "What to do, after a failure or a warning."
    exit_code: int = 0


class Check(Struct, frozen=True):
    """A check and those that must pass first; `run` returns a fact, or raises an error."""

    name: str
    run: Callable[[Visit], str]
    needs: tuple[str, ...] = ()


CHECKS = (
    Check("request", slurm_job.request),
    Check("project", slurm_job.project, ("request",)),
    Check("ssh_config", connection.ssh_config),
    Check("host name", connection.host_name, ("ssh_config",)),
    Check("port", connection.port, ("host name",)),
    Check("host key", connection.host_key, ("port",)),
    Check("login", connection.login, ("host key",)),
    Check("shell and tar", remote_host.tools, ("login",)),
    Check("clock", remote_host.clock, ("shell and tar",)),
    Check("remote folder", remote_host.folder, ("shell and tar",)),
    Check("Slurm", slurm_job.slurm, ("shell and tar",)),
    Check("controller", slurm_job.controller, ("Slurm",)),
    Check("partition", slurm_job.partition, ("controller", "request")),
    Check("job", slurm_job.accepted, ("controller", "request")),
    Check("container image", remote_host.image, ("shell and tar", "request")),
    Check("container engine", remote_host.engine, ("shell and tar", "request")),
    Check("modules", remote_host.modules, ("shell and tar", "request")),
    Check("python", remote_host.python, ("shell and tar", "request")),
)


def examine(visit: Visit) -> Iterator[Step]:
    """Run all checks in order; each result is yielded as soon as it is known."""
    failed: set[str] = set()
    for check in CHECKS:
        step = _step(check, visit, failed)
        if step.state == "failed" or failed.intersection(check.needs):
            failed.add(check.name)
        yield step


def _step(check: Check, visit: Visit, failed: set[str]) -> Step:
    missing = [name for name in check.needs if name in failed]
    if missing:
        return Step(name=check.name, state="not checked", fact=f"needs {missing[0]}")
    try:
        return Step(name=check.name, state="ok", fact=check.run(visit))
    except NotChecked as reason:
        return Step(name=check.name, state="not checked", fact=str(reason))
    except Doubtful as doubt:
        return Step(name=check.name, state="warning", fact=doubt.fact, hint=doubt.hint)
    except SlurmgenError as error:
        return Step(
            name=check.name, state="failed", fact=error.fact, hint=error.hint, exit_code=error.exit_code
        )


def exit_code(steps: list[Step]) -> int:
    """0 if all checks pass, 2 if the request or the project is wrong, 3 if the remote host is not ready."""
    return min((step.exit_code for step in steps if step.state == "failed"), default=0)
