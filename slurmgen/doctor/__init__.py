"""Pre-submission checks: the steps of a submission, each with a hint if it fails, over one login.

If a check fails, those that need it are skipped, and the others still run.
"""

from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct

from slurmgen.doctor import checks
from slurmgen.doctor.checks import Doubtful, NotChecked, Visit
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
    Check("request", checks.request),
    Check("project", checks.project, ("request",)),
    Check("ssh_config", checks.ssh_config),
    Check("host name", checks.host_name, ("ssh_config",)),
    Check("port", checks.port, ("host name",)),
    Check("host key", checks.host_key, ("port",)),
    Check("login", checks.login, ("host key",)),
    Check("shell and tar", checks.tools, ("login",)),
    Check("clock", checks.clock, ("shell and tar",)),
    Check("remote folder", checks.folder, ("shell and tar",)),
    Check("Slurm", checks.slurm, ("shell and tar",)),
    Check("controller", checks.controller, ("Slurm",)),
    Check("partition", checks.partition, ("controller", "request")),
    Check("job", checks.accepted, ("controller", "request")),
    Check("container image", checks.image, ("shell and tar", "request")),
    Check("container engine", checks.engine, ("shell and tar", "request")),
    Check("modules", checks.modules, ("shell and tar", "request")),
    Check("python", checks.python, ("shell and tar", "request")),
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
