"""The environment variables that a job exports."""

import re
from collections.abc import Iterator

from msgspec import structs

from slurmgen.containers import ENGINES, IMAGE_FILE, Engine
from slurmgen.errors import RequestError
from slurmgen.field_names import fields_in, option
from slurmgen.launchers.ddp import RESTART_ENV
from slurmgen.plan.environment import Setup
from slurmgen.plan.rank_labels import NAME as LABEL
from slurmgen.plan.rank_labels import label_variables
from slurmgen.plan.ranks import Ranks
from slurmgen.plan.staging import STAGED_DATA, data_folder, is_staged
from slurmgen.plan.sweep import ARGUMENTS, PROGRESS_DIR, RUN_DIR, sweep_variables
from slurmgen.plan.task_variables import expanded, expanded_in_steps
from slurmgen.request import Request
from slurmgen.sites.model import Site
from slurmgen.slurm.shell import Variable, variables_in, word

_IN_SHELL = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)")
_UNBUFFERED = Variable("PYTHONUNBUFFERED", "1", "1", "Write output to the log at once.")
OWN = ("OMP_NUM_THREADS", _UNBUFFERED.name, *RESTART_ENV, LABEL)
"Variables that every job sets; a value of the request or the profile replaces them."

RENDEZVOUS = ("MASTER_ADDR", "MASTER_PORT")
_TEMPORARY = ("nodes", "addresses")
_RETRY = ("preflight", "report", "nodes", "bad", "known", "job")
_REQUEUE = (
    "REQUEUE_FILE",
    "STOP_FILE",
    "now",
    "status",
    "progress",
    "last",
    "idle",
    "made",
    "job",
    "step",
    "at",
    "run",
)

_READ_ONLY = ("BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID")
_SEGMENTS = (
    *("segments", "this", "task", "restarts", "ended", "previous", "before", "try", "how", "reply", "job"),
    *("shown", "shows", "newest", "old", "sign", "silent", "on", "id", "left", "code"),
)


def variables(request: Request, site: Site, ranks: Ranks, setup: Setup, threads: int) -> tuple[Variable, ...]:
    """The variables that the job exports, each once; the request overrides the site.

    Raises:
        RequestError: the request sets one that has no effect, or that the script itself sets.
    """
    check_names(request, ranks, setup)
    launcher = ranks.launcher
    engine = ENGINES[setup.container.engine] if setup.container else Engine()
    notes = site.env.notes
    found = sweep_variables(request)
    found |= {} if launcher.threads else {"OMP_NUM_THREADS": _threads(threads)}
    found[_UNBUFFERED.name] = _UNBUFFERED
    if any(text.replace("_", "-").startswith("--max-restarts") for text in request.launcher_args or ()):
        found |= {
            name: Variable(name, *(value, value), why) for name, (value, why) in launcher.restart_env.items()
        }
    found |= label_variables(request, launcher, engine.env_prefix)
    for name, value in ranks.settings.env.items():
        found[name] = Variable(name, value, word(value), notes.get(name))
    if setup.container:
        for name, value in site.env.container.items():
            found[name] = Variable(name, value, word(value), notes.get(name), _prefix(name, engine))
    for name, value in request.env.items():
        found[name] = Variable(name, value, word(value), None, _prefix(name, engine))
    if is_staged(request):
        found[STAGED_DATA] = data_folder(site)
    return tuple(_also_for_the_script(request, _in_order(found)))


def _prefix(name: str, engine: Engine) -> str:
    return "" if name.startswith(engine.own_variables) else engine.env_prefix


def _in_order(found: dict[str, Variable]) -> list[Variable]:
    """The variables, each after those that its value uses."""
    ordered: dict[str, Variable] = {}
    begun: set[str] = set()  # some may use each other
    waiting = [*reversed(found)]
    while waiting:
        name = waiting[-1]
        begun.add(name)
        used = [other for other in variables_in(found[name].value) if other in found and other not in begun]
        waiting += used
        if not used:
            ordered[name] = found[waiting.pop()]
    return list(ordered.values())


def _also_for_the_script(request: Request, found: list[Variable]) -> Iterator[Variable]:
    """The variables; one for the container is exported for the batch script too, if that uses it."""
    of_values = {name for one in found for name in variables_in(one.value) if name != one.name}
    used = (_used_by_the_script(request) | of_values).difference(_READ_ONLY)
    for one in found:
        if one.prefix and one.name in used:
            yield structs.replace(one, prefix="", comment="This script uses it too.")
        yield one


def _used_by_the_script(request: Request) -> set[str]:
    """The variables that the batch script expands outside of other variables."""
    texts = [text for what, text in expanded_in_steps(request) if "env" not in fields_in(what)]
    lines = (*(request.before or ()), *(request.after or ()))
    names = {name for text in texts for name in variables_in(text)} | set(_IN_SHELL.findall("\n".join(lines)))
    return names | ({PROGRESS_DIR} if request.may_stop_early else set())


def check_names(request: Request, ranks: Ranks, setup: Setup) -> None:
    """Refuse variables that would have no effect.

    Raises:
        RequestError: the script, the launcher or the container overrules one.
    """
    for name, reason in names_set_later(request, ranks, setup):
        if name in request.env:
            raise RequestError(f"{option('env', name)} would have no effect: {reason}", "Leave it out.")
    _check_staged(request)
    if setup.container:
        for name in ENGINES[setup.container.engine].refused_variables:
            if name in request.env:
                raise RequestError(
                    f"{option('env', name)} is ignored by {setup.container.engine}",
                    f"Leave it out, or bind the folder with {option('binds')}.",
                )


def _check_staged(request: Request) -> None:
    """Refuse a path in the staged data of a request that stages none."""
    is_set = is_staged(request) or STAGED_DATA in request.env
    if is_set or any(STAGED_DATA in line for line in request.before or ()):
        return
    for what, text in expanded(request):
        if STAGED_DATA in variables_in(text):
            raise RequestError(
                f"{what} has ${STAGED_DATA}, but the job stages no data",
                "Name the files with stage or stage_archives in slurmgen.toml.",
            )


def names_set_later(request: Request, ranks: Ranks, setup: Setup) -> Iterator[tuple[str, str]]:
    """The variables that the script or the launcher sets, and why a requested value has no effect."""
    launcher = ranks.launcher
    if launcher.meets(ranks.layout):
        yield RENDEZVOUS[0], "the script sets it to the first node of the job, where rank 0 runs"
        yield (
            RENDEZVOUS[1],
            "the script derives it from the job id, so that jobs on one node use different ports",
        )
        yield from ((name, "the script uses that name") for name in _TEMPORARY)
    if is_staged(request):
        yield STAGED_DATA, "the script sets it to the folder of the staged data"
    yield from _set_by_the_script(request)
    if request.on_bad_node == "retry":
        yield from ((name, "the script uses that name") for name in _RETRY)
    if setup.fetch:
        yield IMAGE_FILE, "the script uses that name"
    if request.may_stop_early:
        names = (*_REQUEUE, *_SEGMENTS) if request.in_segments else _REQUEUE
        why = "continue the job" if request.in_segments else "requeue the job"
        yield from ((name, f"the script sets it to {why}") for name in names)
    if setup.python_env.partition(":")[0] == "uv":
        yield "UV_PROJECT_ENVIRONMENT", f"{option('python_env')} sets the folder of the environment"
    yield from ((name, f"{launcher.name} sets it for each rank") for name in launcher.sets)
    if not (setup.container and ENGINES[setup.container.engine].env_prefix):
        yield from ((name, "it is read-only in bash") for name in _READ_ONLY)


def _set_by_the_script(request: Request) -> Iterator[tuple[str, str]]:
    if request.after:
        yield "status", "the script uses that name"
    if request.sweep:
        yield RUN_DIR, "the script sets it to the folder of each task"
        yield from ((name, "the script uses that name") for name in (ARGUMENTS, "first", "run", "runs"))


def _threads(count: int) -> Variable:
    """Threads of a rank; a value of the environment counts, since a twin has fewer cores."""
    default = f'"${{OMP_NUM_THREADS:-{count}}}"'
    return Variable("OMP_NUM_THREADS", str(count), default, "Threads per rank, unless already set.")
