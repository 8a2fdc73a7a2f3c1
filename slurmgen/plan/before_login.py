"""The lines of `before_login`, which `slurmgen submit` runs on the login node before the job."""

from collections.abc import Iterator

from slurmgen.plan.environment import Setup
from slurmgen.request import Request
from slurmgen.slurm.shell import Variable


def login_script(
    request: Request, setup: Setup, variables: tuple[Variable, ...], architecture: str | None
) -> str:
    """The shell script of these lines; empty if there are none.

    Args:
        request: the request.
        setup: the software of the job.
        variables: the variables that the job exports; the login node gets those of the request only.
        architecture: that of the nodes that the software is for, if it is known.
    """
    if not request.before_login:
        return ""
    own = {one.name: one.word for one in variables if one.name in request.env}
    exports = (f"export {name}={word}" for name, word in own.items())
    lines = ("set -e -o pipefail", *_software(setup, architecture), *exports, *request.before_login)
    return "\n".join(lines) + "\n"


def _software(setup: Setup, architecture: str | None) -> Iterator[str]:
    """The modules and the Python environment, unless the login node cannot run them."""
    lines = (*setup.modules, *setup.python_setup)
    if not lines or not architecture:
        yield from lines
        return
    yield 'machine="$(uname -m)"'
    yield f'if [ "$machine" = {architecture} ]; then'
    yield from lines
    yield "fi"
