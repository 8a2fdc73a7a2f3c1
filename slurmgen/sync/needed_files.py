"""The project files that a job needs: scripts, modules, its configuration, and those of its environment."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from slurmgen import python_env
from slurmgen.slurm.shell import is_full_path, variables_in

if TYPE_CHECKING:
    from slurmgen.plan import Plan

_IGNORED = (
    "Check its path relative to that folder, and whether a .gitignore or .slurmgenignore leaves it out."
)
_NO_PROJECT = (
    "Write a pyproject.toml (`uv init`), or name another environment with --python-env: the full path of one "
    "on the remote host, or none."
)


class Needed(NamedTuple):
    """A file of the project, by its path in the folder that the job starts in."""

    paths: tuple[str, ...]
    "One of these is enough."
    what: str
    "What it is, for an error."
    cause: str
    "What it is for."
    hint: str
    package: str = ""
    "It is needed only if the project has this package; otherwise it is one of the environment."

    @property
    def path(self) -> str:
        """The first of its paths."""
        return self.paths[0]


def needed_files(plan: "Plan") -> Iterator[Needed]:
    """The files that a job needs; those with a full path are on the remote host."""
    request = plan.request
    for script in filter(None, (plan.script, *plan.later_scripts)):
        if not script.startswith("/"):
            yield of_script(script)
    for module in filter(None, (request.module, *(one.module for one in request.then or ()))):
        yield _of_module(module)
    config = request.launcher_config or "/"
    if not is_full_path(config) and not variables_in(config):
        what = f"the file {config!r} of --launcher-config"
        yield Needed((_plain(config.replace("$$", "$")),), what, "the launcher reads", _IGNORED)
    for path in map(_plain, python_env.needed_files(plan.setup.python_env)):
        what = f"{path!r}, which the Python environment needs,"
        yield Needed((path,), what, "the Python environment needs", _NO_PROJECT)


def of_script(script: str) -> Needed:
    """A script that a job runs."""
    return Needed((_plain(script),), f"the script {script!r}", "the job runs", _IGNORED)


def of_batch_script(script: str) -> Needed:
    """A batch script of the user's own."""
    return Needed((_plain(script),), f"the batch script {script!r}", "Slurm runs", _IGNORED)


def _of_module(module: str) -> Needed:
    path = module.replace(".", "/")
    hint = (
        f"It is {path}.py or {path}/__main__.py. A module of the environment, whose package the project "
        f'has too, runs with --command "python -m {module}".'
    )
    package = module.partition(".")[0]
    return Needed(
        (f"{path}.py", f"{path}/__main__.py"), f"the module {module!r}", "the job runs", hint, package
    )


def _plain(path: str) -> str:
    return str(PurePosixPath(path))
