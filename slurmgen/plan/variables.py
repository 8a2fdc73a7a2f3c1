"""The environment variables of a job, its ranks and its secrets."""

import re
from collections.abc import Iterator

from msgspec import structs

from slurmgen.containers import ENGINES
from slurmgen.containers.base import IMAGE_FILE, Engine
from slurmgen.errors import Hint, RequestError, fields_in, leave_it_out, offered, option
from slurmgen.launchers import Launcher, Layout
from slurmgen.launchers.ddp import RESTART_ENV
from slurmgen.plan.model import JobSecrets, Ranks, Setup
from slurmgen.plan.staging import STAGED_DATA, data_folder, is_staged
from slurmgen.plan.sweep import ARGUMENTS, PROGRESS_DIR, RUN_DIR, sweep_variables
from slurmgen.request.model import Request
from slurmgen.secret_names import in_clear
from slurmgen.sites.model import Site
from slurmgen.sites.nodes import Settings
from slurmgen.slurm.shell import PER_TASK, Variable, literal, variables_in, word

# Without it, the label is the rank within its node. https://docs.pytorch.org/docs/stable/elastic/run.html
_TEMPLATE = "[rank${rank}]:"
NAME = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"


def srun_labels(request: Request, launcher: Launcher) -> tuple[str, ...]:
    """The options of srun that label lines."""
    if not request.label_ranks:
        return ()
    if launcher.labels is None:
        raise RequestError(
            f"{option('label_ranks')} has no effect with {launcher.name}: "
            "its ranks write to the output of one process",
            leave_it_out("label_ranks", text="Leave it out, and have the script write the rank."),
        )
    return ("--label",) if launcher.labels == "srun" else ()


def launcher_labels(request: Request, launcher: Launcher) -> tuple[str, ...]:
    """The options of torchrun that label lines; it writes them to files on the node, too."""
    return ("--tee=3",) if request.label_ranks and launcher.labels == "torchrun" else ()


_IN_SHELL = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)")
_UNBUFFERED = Variable("PYTHONUNBUFFERED", "1", "1", "Write output to the log at once.")

OWN = ("OMP_NUM_THREADS", _UNBUFFERED.name, *RESTART_ENV, NAME)
"Variables that every job sets; a value of the request or the profile replaces them."

RENDEZVOUS = ("MASTER_ADDR", "MASTER_PORT")
_TEMPORARY = ("nodes", "addresses")
_RETRY = ("preflight", "report", "nodes", "bad", "known", "job")
_REQUEUE = tuple("REQUEUE_FILE STOP_FILE now status progress last idle made job step at run".split())

_READ_ONLY = ("BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID")
_SEGMENTS = (
    *("segments", "this", "task", "restarts", "ended", "previous", "before", "try", "how", "reply", "job"),
    *("shown", "shows", "newest", "old", "sign", "silent", "on", "id", "left", "code"),
)


def variables(request: Request, site: Site, ranks: Ranks, setup: Setup, threads: int) -> tuple[Variable, ...]:
    """The variables that the job exports, each once; the request overrides the site."""
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
    if launcher_labels(request, launcher):
        why = "torchrun labels each line with its rank."
        found[NAME] = Variable(NAME, _TEMPLATE, literal(_TEMPLATE), why, engine.env_prefix)
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
    texts = [text for what, text in expanded_in_steps(request) if "env" not in fields_in(what)]
    lines = (*(request.before or ()), *(request.after or ()))
    names = {name for text in texts for name in variables_in(text)} | set(_IN_SHELL.findall("\n".join(lines)))
    return names | ({PROGRESS_DIR} if request.may_stop_early else set())


def check_names(request: Request, ranks: Ranks, setup: Setup) -> None:
    """Refuse variables that would have no effect."""
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
    default = f'"${{OMP_NUM_THREADS:-{count}}}"'
    return Variable("OMP_NUM_THREADS", str(count), default, "Threads per rank, unless already set.")


_OWN = ("secrets", "runs_again")
"Variables of the script's lines for secrets."


def find_secrets(request: Request, ranks: Ranks, setup: Setup, further: dict[str, str]) -> JobSecrets | None:
    """The secrets of a request; None without any."""
    _check_env(request)
    if not request.secrets:
        return None
    taken = dict.fromkeys((*OWN, *_OWN), "the script uses that name")
    taken |= dict(names_set_later(request, ranks, setup))
    of_env = f"{option('env')} sets it too, and its value is part of the script"
    taken |= dict.fromkeys(request.env, of_env)
    for name in request.secrets:
        if name in taken:
            raise RequestError(
                f"{name} cannot be a secret: {taken[name]}", "Leave one of them out.", "secrets"
            )
    for name in request.env.keys() & set(_OWN):
        raise RequestError(
            f"{option('env', name)} would have no effect: the script uses that name", "Leave it out."
        )
    _check_arguments(request)
    prefix = ENGINES[setup.container.engine].env_prefix if setup.container else ""
    return JobSecrets(request.secrets, prefix, "array" in further and not request.in_segments)


def _check_arguments(request: Request) -> None:
    """Refuse a secret in what becomes an argument, which every user of a node can see."""
    for what, text in expanded_in_steps(request):
        for name in set(request.secrets or ()) & set(variables_in(text)):
            if "env" not in fields_in(what):
                raise RequestError(
                    f"{what} has ${name}, a secret that would be in the list of processes",
                    "Read the variable in the program instead.",
                )


def _check_env(request: Request) -> None:
    """Refuse a variable that looks like a secret: its value would be part of the script."""
    for name, value in request.env.items():
        if name not in (request.not_secret or ()) and in_clear(name, value):
            raise RequestError(
                f"{option('env', name)} looks like a secret, and its value would be part of the script",
                Hint(
                    f"Use {option('secrets', name)}, or {option('not_secret', name)} if it is not secret; "
                    "see docs/secrets.md.",
                    (*offered("secrets", name), *offered("not_secret", name)),
                ),
            )


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
    """Refuse per-task variables in values that the batch script expands once for all tasks."""
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
