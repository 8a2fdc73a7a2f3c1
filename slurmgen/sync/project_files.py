"""Which files of a project are sent with a job."""

import re
from collections.abc import Iterable
from itertools import product
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from slurmgen.bundled_scripts import FOLDER, PREFLIGHT, REPLACED, is_bundled
from slurmgen.errors import RequestError
from slurmgen.field_names import option
from slurmgen.hints import Hint, offered
from slurmgen.paths import bundled
from slurmgen.sync.files import Snapshot, snapshot
from slurmgen.sync.needed_files import Needed, needed_files
from slurmgen.text import visible

if TYPE_CHECKING:
    from slurmgen.plan import Plan


def project_files(
    project_dir: Path,
    needed: Iterable[Needed],
    send: tuple[str, ...] = (),
    logs: re.Pattern[str] | None = None,
) -> Snapshot:
    """The project's files, with the bundled training folder if a script is part of it and not of the project.

    Args:
        project_dir: the folder that is sent.
        needed: the files that the job needs.
        send: files that are sent although their names suggest secrets, or they are ignored.
        logs: matches the names of jobs' logs, which are not sent.

    Raises:
        RequestError: one of these files would not be sent, so the job could only fail; the script is one of
            an earlier slurmgen; or the project folder contains the home folder.
    """
    if Path.home().resolve().is_relative_to(project_dir.resolve()):
        raise RequestError(
            f"the project folder is {visible(str(project_dir))}, which contains your home folder",
            "Go to the folder of the project, and submit from there.",
        )
    found = snapshot(project_dir, send, logs)
    for one in needed:
        found = _with_bundled(one, found, project_dir)
        _demand(one, found, project_dir)
    return found


def _with_bundled(one: Needed, found: Snapshot, project_dir: Path) -> Snapshot:
    _refuse_replaced(one.path, project_dir)
    if one.path in found.files or not is_bundled(one.path):
        return found
    return found.over(snapshot(bundled(FOLDER)).under(FOLDER))


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
    needed = list(needed_files(plan))
    for one in needed:
        _refuse_replaced(one.path, project_dir)
    with_training = any(is_bundled(one.path) for one in needed)
    folders = [project_dir, *([bundled(FOLDER).parent] if with_training else [])]
    return [
        f"there is no {one.path} in {project_dir}, which {one.cause}"
        for one in needed
        if not any((folder / path).exists() for folder in folders for path in one.paths)
        and _is_of_project(one, project_dir)
    ]


def check_replaced(plan: "Plan") -> None:
    """Refuse a job whose script is a bundled one of an earlier slurmgen, and of no project. It reads no file.

    Raises:
        RequestError: the script is one of an earlier slurmgen.
    """
    for one in needed_files(plan):
        _refuse_replaced(one.path, None)


def _refuse_replaced(script: str, project_dir: Path | None) -> None:
    """Refuse a bundled script of an earlier slurmgen, unless the project has a copy of it."""
    name = str(PurePosixPath(script))
    if name not in REPLACED or (project_dir and (project_dir / name).exists()):
        return
    new, task = REPLACED[name]
    raise RequestError(
        f"{name} is now {new} with the argument --task {task}",
        Hint(
            f"Write `{option('script', new)} -- --task {task}`, or in slurmgen.toml "
            f'`script = "{new}"` and `script_args = ["--task", "{task}"]`.',
            offered("script", new),
        ),
    )


_UNSENT = "Rename it, or send it with --send PATH."


def _is_of_project(one: Needed, project_dir: Path) -> bool:
    """Whether the project must have the file: a module may also be installed in the environment."""
    if not one.package or (project_dir / f"{one.package}.py").exists():
        return True
    folder = project_dir / one.package
    return not folder.is_symlink() and any(folder.rglob("*.py"))  # a link may lead anywhere


def _demand(one: Needed, found: Snapshot, project_dir: Path) -> None:
    if any(path in found.files for path in one.paths) or not _is_of_project(one, project_dir):
        return
    for path, (secret, content) in product(one.paths, found.secrets.items()):
        if f"{path}/".startswith(f"{secret.rstrip('/')}/"):
            fact = f"{one.what} is not sent: by its name, {visible(secret)} holds {content}"
            raise RequestError(fact, _UNSENT)
    raise RequestError(
        f"{one.what} is not among the files of {visible(str(project_dir))} that are sent", one.hint
    )
