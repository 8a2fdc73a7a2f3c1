"""Which files of a project are sent with a job."""

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from slurmgen.bundled_scripts import FOLDER, PREFLIGHT, REPLACED, is_bundled
from slurmgen.errors import RequestError
from slurmgen.paths import bundled
from slurmgen.python_env import needed_files
from slurmgen.slurm.shell import is_full_path
from slurmgen.sync.files import Snapshot, snapshot
from slurmgen.text import visible

if TYPE_CHECKING:
    from slurmgen.plan import Plan


def project_files(
    project_dir: Path,
    script: str | None,
    needed: tuple[str, ...] = (),
    send: tuple[str, ...] = (),
    later: tuple[str, ...] = (),
) -> Snapshot:
    """The project's files, with the bundled training folder if `script` is part of it and not of the project.

    Args:
        project_dir: the folder that is sent.
        script: the training script, relative to that folder; None if the job has none.
        needed: the files that the Python environment is made from or is in.
        send: files that are sent although their names suggest secrets, or they are ignored.
        later: the scripts of further steps.

    Raises:
        RequestError: one of these files would not be sent, so the job could only fail; the script is one of
            an earlier slurmgen; or the project folder contains the home folder.
    """
    if Path.home().resolve().is_relative_to(project_dir.resolve()):
        raise RequestError(
            f"the project folder is {visible(str(project_dir))}, which contains your home folder",
            "Go to the folder of the project, and submit from there.",
        )
    found = snapshot(project_dir, send)
    for one in (script, *later):
        found = _with_script(one, found, project_dir) if one is not None else found
    for path in needed:
        what = f"{str(PurePosixPath(path))!r}, which the Python environment needs,"
        _demand(what, path, found, project_dir, _NO_PROJECT)
    return found


def _with_script(script: str, found: Snapshot, project_dir: Path) -> Snapshot:
    _refuse_replaced(script, project_dir)
    name = str(PurePosixPath(script))
    if name not in found.files and is_bundled(name):
        found = found.over(snapshot(bundled(FOLDER)).under(FOLDER))
    _demand(f"the script {script!r}", script, found, project_dir, _IGNORED)
    return found


def with_preflight(files: Snapshot) -> Snapshot:
    """The files with the program that checks nodes, unless the project has a copy of it."""
    if f"{PREFLIGHT}/__main__.py" in files.files:
        return files
    return files.over(snapshot(bundled(PREFLIGHT)).under(PREFLIGHT))


def missing_preflight(plan: "Plan", project_dir: Path) -> list[str]:
    """A message if `sbatch` would not find the program that checks nodes; `submit` sends it."""
    if not plan.request.preflight or (project_dir / PREFLIGHT / "__main__.py").exists():
        return []
    return [f"there is no {PREFLIGHT} in {project_dir}; `slurmgen preflight --copy` makes one for sbatch"]


def missing_files(plan: "Plan", project_dir: Path) -> list[str]:
    """A message for each file of a job that does not exist; `submit` would refuse the job.

    Only existence is checked, which is quick: no ignore file is read.

    Raises:
        RequestError: the script is one of an earlier slurmgen.
    """
    causes = dict.fromkeys(needed_files(plan.setup.python_env), "the Python environment needs")
    folders = [project_dir]
    for script in filter(None, (plan.script, *plan.later_scripts)):
        _refuse_replaced(script, project_dir)
        folders += [bundled(FOLDER).parent] if is_bundled(script) else []
        causes = {script: "the job runs", **causes}
    return [
        f"there is no {PurePosixPath(path)} in {project_dir}, which {cause}"
        for path, cause in causes.items()
        if not is_full_path(path) and not any((folder / path).exists() for folder in folders)
    ]


def _refuse_replaced(script: str, project_dir: Path) -> None:
    """Refuse a bundled script of an earlier slurmgen, unless the project has a copy of it."""
    name = str(PurePosixPath(script))
    if name not in REPLACED or (project_dir / name).exists():
        return
    new, task = REPLACED[name]
    raise RequestError(
        f"{name} is now {new} with the argument --task {task}",
        f"Write `--script {new} -- --task {task}`, or in slurmgen.toml "
        f'`script = "{new}"` and `script_args = ["--task", "{task}"]`.',
    )


_IGNORED = (
    "Check its path relative to that folder, and whether a .gitignore or .slurmgenignore leaves it out."
)
_NO_PROJECT = (
    "Write a pyproject.toml (`uv init`), or name another environment with --python-env: the full path of one "
    "on the remote host, or none."
)
_UNSENT = "Rename it, or send it with --send PATH."


def _demand(what: str, path: str, found: Snapshot, project_dir: Path, hint: str) -> None:
    name = str(PurePosixPath(path))
    if path.startswith("/") or name in found.files:
        return
    for secret, content in found.secrets.items():
        if f"{name}/".startswith(f"{secret.rstrip('/')}/"):
            raise RequestError(f"{what} is not sent: by its name, {visible(secret)} holds {content}", _UNSENT)
    raise RequestError(f"{what} is not among the files of {visible(str(project_dir))} that are sent", hint)
