"""The secrets of a job: variables that it reads from a file, so that no value is in the script."""

from msgspec import Struct

from slurmgen.containers import ENGINES
from slurmgen.errors import RequestError
from slurmgen.field_names import fields_in, option
from slurmgen.hints import Hint, offered
from slurmgen.plan.environment import Setup
from slurmgen.plan.ranks import Ranks
from slurmgen.plan.task_variables import expanded_in_steps
from slurmgen.plan.variables import OWN, names_set_later
from slurmgen.request import Request
from slurmgen.secret_names import in_clear
from slurmgen.slurm.shell import variables_in

PATH = ".slurmgen/secrets"
"The file, in the folder that the job runs in."
_OWN = ("secrets", "runs_again")
"Variables of the script's lines for secrets."


class JobSecrets(Struct, frozen=True):
    """What the script needs to read its secrets."""

    names: tuple[str, ...]
    prefix: str
    "The container engine's prefix of host variables; empty for none."
    tasks: bool
    "A job array, whose tasks share the file."
    path: str = PATH


def find_secrets(request: Request, ranks: Ranks, setup: Setup, further: dict[str, str]) -> JobSecrets | None:
    """The secrets of a request; None without any.

    Raises:
        RequestError: one is also an ordinary variable, or has no effect; or a variable looks like a secret.
    """
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
