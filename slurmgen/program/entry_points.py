"""The programs and the batch scripts of a folder, from which `slurmgen init` makes jobs."""

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from slurmgen.errors import SlurmgenError
from slurmgen.program.files import BATCH_SUFFIXES
from slurmgen.program.framework import FRAMEWORK_MODULES, Program, read_program
from slurmgen.program.target import kind_of

MOST_FILES = 500
"Files that are looked at; a larger project names its own jobs."
MOST_JOBS = 20
_DEEPEST = 3
"Folders below the project."
_SKIPPED = re.compile(
    r"\..*|__pycache__|node_modules|site-packages|venv|env|tests?|docs?|build|dist|training"
)
"Folders without programs of the user's own; `training` is that of the bundled examples."
_PARSERS = {"argparse", "click", "hydra", "tyro", "fire", "typer", "absl"}


def entry_points(folder: Path) -> list[Program]:
    """The programs that look like training: they run or parse arguments, and use a framework."""
    programs = (read_program(folder, name) for name in _files(folder) if name.endswith(".py"))
    return [one for one in programs if one and _is_entry(one)][:MOST_JOBS]


def _is_entry(program: Program) -> bool:
    imported = {one.module.partition(".")[0] for one in program.source.imports}
    runs = program.source.has_main or imported & _PARSERS
    return bool(runs and (imported & FRAMEWORK_MODULES or program.evidence))


def batch_scripts(folder: Path) -> list[str]:
    """The batch scripts of a folder, by their paths in it."""
    names = (name for name in _files(folder) if name.endswith((*BATCH_SUFFIXES, ".sh")))
    return [name for name in names if _is_batch(folder / name)][:MOST_JOBS]


def _is_batch(path: Path) -> bool:
    try:
        return kind_of(path) == "batch"
    except SlurmgenError:
        return False


def _files(folder: Path) -> Iterator[str]:
    """The files of a folder in order, the upper ones first, without links and up to a limit."""
    count = 0
    for top, folders, names in os.walk(folder):
        here = PurePosixPath(Path(top).relative_to(folder).as_posix())
        deep = len(here.parts) >= _DEEPEST
        folders[:] = [] if deep else sorted(name for name in folders if not _SKIPPED.fullmatch(name))
        for name in sorted(names):
            count += 1
            if count > MOST_FILES:
                return
            if not (Path(top) / name).is_symlink():
                yield str(here / name)
