"""What the caller asks for, and how it overrules slurmgen.toml."""

from pathlib import Path

from msgspec import Struct, structs

from slurmgen.config import user
from slurmgen.config.project import DEFAULT_SITE, FILE_NAME, Project
from slurmgen.config.sweep_file import with_file
from slurmgen.errors import RequestError, UnknownJob
from slurmgen.request import Request, merge
from slurmgen.request_command import command_line
from slurmgen.sites.model import Site

_HINT = "`slurmgen init` writes one to start from. Arguments of the training script go after `--`."


class JobOptions(Struct, frozen=True, kw_only=True):
    """What the caller asks for; slurmgen.toml and the user's settings fill in the rest."""

    job: str | None = None
    "A job of slurmgen.toml."
    site: str | None = None
    request: Request = Request()
    "It overrules slurmgen.toml."
    replace_args: bool = False
    "The request's `script_args` replace those of slurmgen.toml; otherwise they come after them."

    @property
    def overrides(self) -> Request:
        """The request: without arguments, it removes those of slurmgen.toml, or appends none to them."""
        args = self.request.script_args or (() if self.replace_args else None)
        return structs.replace(self.request, script_args=args)


def job_name(options: JobOptions, project: Project, project_dir: Path) -> str | None:
    """The job that the options name, else the only one; None for a script of its own.

    Raises:
        RequestError: the job does not exist, or slurmgen.toml has several and the options name none.
    """
    if options.job is not None and not project.job:
        raise UnknownJob(
            f"there is no job {options.job!r}: {project_dir} has no {FILE_NAME} with jobs", _HINT
        )
    if options.job is not None or options.request.names_program or not project.job:
        return options.job
    if len(project.job) > 1:
        raise RequestError(
            f"{FILE_NAME} has several jobs: {', '.join(project.job)}",
            f"Name one, such as {next(iter(project.job))}; --script alone makes a job from [defaults].",
        )
    return next(iter(project.job))


def site_name(options: JobOptions, project: Project) -> str:
    """The site that the options name, else that of slurmgen.toml, else the default."""
    names = (options.site, project.site, DEFAULT_SITE)
    return next(name for name in names if name is not None)


def merged_request(written: Request, options: JobOptions, project_dir: Path) -> Request:
    """The request of slurmgen.toml, overruled by the options, with the parameters of its sweep.

    Raises:
        ConfigError, RequestError: the file with the parameters is wrong.
    """
    overrides = options.overrides
    merged = merge(written, overrides)
    if not options.replace_args and overrides.script_args is not None:
        args = (written.script_args or ()) + overrides.script_args
        merged = structs.replace(merged, script_args=args)
    return _with_sweep(merged, project_dir)


def _with_sweep(request: Request, project_dir: Path) -> Request:
    """The request with the parameters of its sweep, which may be in a file of the project."""
    if request.sweep is None:
        return request
    return structs.replace(request, sweep=with_file(request.sweep, project_dir))


def header_command(
    options: JobOptions, site: Site, job: str | None, written: Request, merged: Request
) -> str:
    """The command for the header: short for a named job, else complete without slurmgen.toml."""
    if job:
        return command_line(site.name, options.overrides, job, replace_args=options.replace_args)
    return command_line(site.name, merged, replace_args=written.script_args is not None)


def command_again(site: str, options: JobOptions, request: Request) -> str:
    """The command for the header of a job of the ledger: short for a named job, else complete."""
    asked = options.overrides if options.job else request
    return command_line(site, asked, options.job, replace_args=options.replace_args)


def files_of(request: Request, merged: Request, overrides: Request) -> dict[str, str]:
    """The file that each field, variable and sbatch option comes from, if it is not an option."""
    files: dict[str, str] = {}
    for key in Request.__struct_fields__:
        value, override = getattr(request, key), getattr(overrides, key)
        if isinstance(value, dict):
            files |= {f"{key}.{name}": FILE_NAME for name in value.keys() - override.keys()}
        elif key == "secrets":  # a name of the caller counts as consent
            files |= {f"{key}.{name}": FILE_NAME for name in value or () if name not in (override or ())}
        elif value != getattr(merged, key):
            files[key] = user.FILE_NAME
        elif override is None and value is not None:
            files[key] = FILE_NAME
    return files
