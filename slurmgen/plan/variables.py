"""The environment variables that a job exports, and those that each of its tasks exports for itself."""

from collections.abc import Iterator
from functools import lru_cache

from slurmgen.containers import ENGINES
from slurmgen.errors import RequestError
from slurmgen.launchers import Geometry, Launcher
from slurmgen.plan.environment import Setup
from slurmgen.request import Request
from slurmgen.sites.model import Site
from slurmgen.slurm.shell import PER_TASK, Variable, variables_in, word

_UNBUFFERED = Variable("PYTHONUNBUFFERED", "1", "1", "So that the log shows at once what is printed.")
OWN = ("OMP_NUM_THREADS", _UNBUFFERED.name)
"Variables of every job, from no profile; a value of the request or the profile counts instead."

RENDEZVOUS = ("MASTER_ADDR", "MASTER_PORT")
_TEMPORARY = ("nodes", "addresses")
_REQUEUE = ("REQUEUE_FILE", "now", "status")


def variables(
    request: Request, site: Site, launcher: Launcher, geometry: Geometry, setup: Setup, threads: int
) -> tuple[Variable, ...]:
    """The variables that the job exports, each once; the request overrules the site.

    Raises:
        RequestError: the request sets one that a container does not take, or that is set again later.
    """
    for name, reason in _set_later(request, launcher, geometry, setup):
        if name in request.env:
            raise RequestError(f"--env {name} would have no effect: {reason}", "Leave it out.")
    container = setup.container
    if container and "HOME" in request.env:
        raise RequestError(
            "--env HOME is ignored by apptainer", "Leave it out, or name the folder in --bind."
        )
    prefix = ENGINES[container.engine].env_prefix if container else ""
    of_site = site.env.ready[(geometry.world_size > 1) + (geometry.nodes > 1)]
    found = {"OMP_NUM_THREADS": _threads(threads), _UNBUFFERED.name: _UNBUFFERED, **of_site}
    if container:
        for name, value in site.env.container.items():
            found[name] = Variable(name, value, word(value), site.env.notes.get(name), prefix)
    for name, value in request.env.items():
        found[name] = Variable(name, value, word(value), None, prefix)
    return tuple(found.values())


def task_variables(request: Request, site: Site) -> tuple[Variable, ...]:
    """The variables that each task exports for itself; one of the request stays as it is."""
    return tuple(
        Variable(name, value, word(value), site.env.notes.get(name))
        for name, value in site.env.task.items()
        if name not in request.env
    )


def check_per_task(request: Request, tasks: int) -> None:
    """Refuse a variable that differs from task to task, where the batch script would expand it for all.

    Raises:
        RequestError: it names the variable.
    """
    texts = [("--container", request.container or ""), ("--python-env", request.python_env or "")]
    texts += [("--bind", bind) for bind in request.binds or ()]
    texts += [(f"--env {name}", value) for name, value in request.env.items()]
    texts += [(f"the argument {text!r}", text) for text in request.script_args or ()]
    for what, text in texts if tasks > 1 else ():
        for name in variables_in(text):
            if name in PER_TASK:
                raise RequestError(
                    f"{what} has ${name}, which the batch script expands, the same for all {tasks} tasks",
                    "Read it in the training script, or set a variable from it in [env.task] of the profile.",
                )


def _set_later(
    request: Request, launcher: Launcher, geometry: Geometry, setup: Setup
) -> Iterator[tuple[str, str]]:
    """What is set after the variables of a request, and why its value cannot count."""
    if launcher.meets(geometry):
        yield RENDEZVOUS[0], "all ranks must meet on the job's first node"
        yield RENDEZVOUS[1], "the port comes from the job's id, so that no two jobs on a node share one"
        yield from ((name, "the script uses that name itself") for name in _TEMPORARY)
    if request.requeue:
        yield from ((name, "the script sets it to put the job back into the queue") for name in _REQUEUE)
    if setup.python_env.partition(":")[0] == "uv":
        yield "UV_PROJECT_ENVIRONMENT", "--python-env says where uv's environment is"
    yield from ((name, f"{launcher.name} sets it for each rank") for name in launcher.sets)


@lru_cache(maxsize=256)
def _threads(count: int) -> Variable:
    """A rank's threads; a machine with fewer real cores may have set them already."""
    default = f'"${{OMP_NUM_THREADS:-{count}}}"'
    return Variable("OMP_NUM_THREADS", str(count), default, "Threads of a rank; a value set before stays.")
