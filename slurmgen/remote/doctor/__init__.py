"""Could one submit? Checked step by step, over one login, each with what to do.

What is in the way of what stands in CHECKS: after a step that failed, those that need it are
not checked, and the others are.
"""

from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct

from slurmgen.errors import SlurmgenError
from slurmgen.remote.doctor import arrival, far_side, job
from slurmgen.remote.doctor.visit import Doubtful, NotChecked, Visit

State = Literal["ok", "warning", "failed", "not checked"]


class Step(Struct, frozen=True, kw_only=True):
    """What came of one check."""

    name: str
    state: State
    said: str
    "The fact that was seen, or why it was not."
    hint: str = ""
    "What to do, after a failure or a warning."
    exit_code: int = 0


class Check(Struct, frozen=True):
    """One thing to look at; `look` says what it saw, and raises our error if that is not well."""

    name: str
    look: Callable[[Visit], str]
    needs: tuple[str, ...] = ()


CHECKS = (
    Check("request", job.request),
    Check("project", job.project, ("request",)),
    Check("ssh_config", arrival.ssh_config),
    Check("host name", arrival.host_name, ("ssh_config",)),
    Check("port", arrival.port, ("host name",)),
    Check("host key", arrival.host_key, ("port",)),
    Check("login", arrival.login, ("host key",)),
    Check("shell and tar", far_side.tools, ("login",)),
    Check("clock", far_side.clock, ("shell and tar",)),
    Check("remote folder", far_side.folder, ("shell and tar",)),
    Check("Slurm", job.slurm, ("shell and tar",)),
    Check("controller", job.controller, ("Slurm",)),
    Check("partition", job.partition, ("controller", "request")),
    Check("job", job.accepted, ("controller", "request")),
    Check("container image", far_side.image, ("shell and tar", "request")),
    Check("modules", far_side.modules, ("shell and tar", "request")),
    Check("python", far_side.python, ("shell and tar", "request")),
)


def examine(visit: Visit) -> Iterator[Step]:
    """Every step, in order, as it is done."""
    failed: set[str] = set()
    for check in CHECKS:
        step = _step(check, visit, failed)
        if step.state == "failed" or failed.intersection(check.needs):
            failed.add(check.name)
        yield step


def _step(check: Check, visit: Visit, failed: set[str]) -> Step:
    missing = [name for name in check.needs if name in failed]
    if missing:
        return Step(name=check.name, state="not checked", said=f"{missing[0]} comes first")
    try:
        return Step(name=check.name, state="ok", said=check.look(visit))
    except NotChecked as reason:
        return Step(name=check.name, state="not checked", said=str(reason))
    except Doubtful as doubt:
        return Step(name=check.name, state="warning", said=doubt.fact, hint=doubt.hint)
    except SlurmgenError as error:
        return Step(
            name=check.name, state="failed", said=error.fact, hint=error.hint, exit_code=error.exit_code
        )


def exit_code(steps: list[Step]) -> int:
    """0 if all is well, 2 if what is asked for or the project is wrong, 3 if the far side is not ready."""
    return min((step.exit_code for step in steps if step.state == "failed"), default=0)
