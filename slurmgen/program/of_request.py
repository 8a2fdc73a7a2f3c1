"""The program of a request, and the framework that it shows."""

from pathlib import Path, PurePosixPath

from msgspec import structs

from slurmgen.files import is_inside, read_text
from slurmgen.launchers import LAUNCHERS
from slurmgen.plan.model import requested_gpus
from slurmgen.plan.resources import WITHOUT_GPUS
from slurmgen.plan.step import SHELL_SUFFIX
from slurmgen.program.files import program_file
from slurmgen.program.framework import Evidence, Program, read_program
from slurmgen.python_source import Source
from slurmgen.request.model import Request

_OF_FEW = ("rendezvous", "mixed_precision", "launcher_args", "launcher_config")
"Fields that only some launchers take."
_STARTERS = {"torchrun": "torchrun", "accelerate": "accelerate launch", "deepspeed": "deepspeed"}


def with_framework(request: Request, project_dir: Path) -> tuple[Request, Program | None]:
    """A request with the framework that its program shows, unless it names one; and the program, if read."""
    program = program_of(request, project_dir)
    if program is None or request.framework is not None or not program.is_known:
        return request, program
    if not _fits(program.framework, request):
        return request, program
    return structs.replace(request, framework=program.framework), program


def _fits(framework: str, request: Request) -> bool:
    """Whether a framework takes what a request asks for."""
    given = [field for field in _OF_FEW if getattr(request, field) is not None]
    takes_all = all(field in LAUNCHERS[framework].takes for field in given)
    return takes_all and bool(requested_gpus(request) or framework in WITHOUT_GPUS)


def program_of(request: Request, project_dir: Path) -> Program | None:
    """The program of a request, if it is a file of the project that can be read."""
    file = program_file(request, project_dir)
    if file is None:
        return None
    if file.endswith(SHELL_SUFFIX):
        return _shell_program(project_dir, file)
    return read_program(project_dir, file) if file.endswith(".py") else None


def _shell_program(project_dir: Path, file: str) -> Program | None:
    """What a shell program shows: the launcher that it calls, else the Python file that it runs."""
    path = project_dir / file
    if not is_inside(path, project_dir):
        return None
    from slurmgen.lint.reader import read  # 20 ms that only a shell program needs

    try:
        script = read(read_text(path), path)
    except (OSError, ValueError):
        return None
    for launch in script.launches:
        line = script.source.position(launch.span.start).line
        if launch.kind in _STARTERS:
            own = Evidence("python", file, line, _STARTERS[launch.kind])
            return Program(file, "python", Source(), (own,), why=f"where {own.text} starts the ranks")
        if launch.kind == "python" and launch.script is not None and launch.script.known:
            return read_program(project_dir, str(PurePosixPath(launch.script.text)))
    return Program(file, "python", Source(), why="in which nothing starts several processes")
