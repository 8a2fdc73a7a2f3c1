"""The environment variables that each task exports for itself, and what the batch script expands for all."""

from collections.abc import Iterator

from slurmgen.errors import RequestError
from slurmgen.field_names import option
from slurmgen.launchers import Launcher, Layout
from slurmgen.request import Request
from slurmgen.sites.model import Site
from slurmgen.sites.settings import Settings
from slurmgen.slurm.shell import PER_TASK, Variable, variables_in, word


def task_variables(
    request: Request, site: Site, settings: Settings, launcher: Launcher, layout: Layout
) -> tuple[Variable, ...]:
    """The variables that each task exports for itself, except those that the request sets.

    The profile overrides the launcher: it may say that each task sees one GPU only, as its local rank 0.
    """
    return tuple(
        Variable(name, value, word(value), site.env.notes.get(name))
        for name, value in {**launcher.task_env(layout), **settings.task_env}.items()
        if name not in request.env
    )


def check_per_task(request: Request, tasks: int) -> None:
    """Refuse per-task variables in values that the batch script expands once for all tasks.

    Raises:
        RequestError: a value has such a variable.
    """
    for what, text in expanded(request) if tasks > 1 else ():
        for name in variables_in(text):
            if name in PER_TASK:
                raise RequestError(
                    f"{what} has ${name}, which the batch script expands once for all {tasks} tasks",
                    "Read it in the training script, or set a variable from it in [env.task] of the profile.",
                )


def expanded(request: Request) -> Iterator[tuple[str, str]]:
    """The values whose variables the batch script expands, and what they are."""
    for field in ("container", "python_env", "launcher_config"):
        yield option(field), getattr(request, field) or ""
    for field in ("binds", "stage", "stage_archives", "launcher_args"):
        yield from ((option(field), text) for text in getattr(request, field) or ())
    yield from ((option("env", name), value) for name, value in request.env.items())
    arguments = (*(request.command or ()), *(request.script_args or ()))
    yield from ((f"the argument {text!r}", text) for text in arguments)


def expanded_in_steps(request: Request) -> Iterator[tuple[str, str]]:
    """The same values of all steps of a job."""
    yield from expanded(request)
    for step in request.then or ():
        arguments = (*(step.command or ()), *(step.script_args or ()))
        yield from ((f"the argument {text!r} of then", text) for text in arguments)
