"""Files and words of a command line that name a program. It reads nothing, and is quick to import."""

from pathlib import Path, PurePosixPath

from slurmgen.files import is_bundled, is_file
from slurmgen.request.model import Request

BATCH_SUFFIXES = (".sbatch", ".slurm", ".job")
SHELL_SUFFIXES = (".sh", ".bash", ".ksh", ".zsh")
FILE_SUFFIXES = (*BATCH_SUFFIXES, *SHELL_SUFFIXES, ".py")
"An argument that ends with one of them, or has a slash, is a file and no name of a job."


def names_file(word: str) -> bool:
    """Whether an argument is written as a file."""
    return "/" in word or word.endswith(FILE_SUFFIXES)


def path_in_project(path: Path, project_dir: Path) -> str | None:
    """The path of a file relative to its project; None if it is outside."""
    try:
        whole = path.parent.resolve() / path.name
        return whole.relative_to(project_dir.resolve()).as_posix() or None
    except (OSError, RuntimeError, ValueError):
        return None


def program_file(request: Request, project_dir: Path) -> str | None:
    """The path of the program of a request in the project; None if it names none."""
    if request.module:
        path = request.module.replace(".", "/")
        names = [f"{top}{path}{end}" for top in ("", "src/") for end in (".py", "/__main__.py")]
        return next((name for name in names if is_file(project_dir / name)), None)
    script = request.script
    if not script or script.startswith("/") or "$" in script:
        return None
    is_here = is_file(project_dir / script)
    return str(PurePosixPath(script)) if is_here and not is_bundled(script) else None


_RUNNERS = frozenset(
    "python python3 bash sh torchrun accelerate deepspeed mpirun mpiexec srun uv pixi".split()
)


def begins_command(word: str, project_dir: Path, *, has_jobs: bool) -> bool:
    """Whether the words after `--` are a command, and not arguments of a job's program."""
    if word.startswith("-"):
        return False
    if not has_jobs or word in _RUNNERS:
        return True
    return names_file(word) and is_file(project_dir / word)
