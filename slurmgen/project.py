"""Project: slurmgen.toml, with named jobs and what differs from site to site."""

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from slurmgen.config import convert, read_toml
from slurmgen.errors import RequestError, did_you_mean
from slurmgen.request import Request, merge
from slurmgen.site import Name

FILE_NAME = "slurmgen.toml"
DEFAULT_SITE = "generic"
Folder = Annotated[str, Meta(min_length=1)]


class Job(Request, frozen=True):
    """One named job, `[job.NAME]`: a request, and what differs on some sites."""

    sites: tuple[Name, ...] | None = None
    "The sites that it has a checked-in script for, instead of those that follow from the file."
    site: dict[Name, Request] = {}
    "What differs on a site."


class Lint(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which lint rules apply, by the beginning of their codes."""

    select: tuple[str, ...] = ()
    "Only these; all if empty."
    ignore: tuple[str, ...] = ()
    "Never these."


class Project(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What slurmgen.toml says."""

    site: str | None = None
    "The site when nobody says one."
    sites: tuple[Name, ...] | None = None
    "The sites that every job has a checked-in script for; else `site`, and each that a job has a table for."
    script_dir: Folder = "slurm"
    "Where `render --write` puts scripts."
    template_dir: Folder = "templates"
    "Templates here replace the bundled ones of the same name."
    defaults: Request = Request()
    "For every job, and for a request without a job."
    job: dict[Name, Job] = {}
    lint: Lint = Lint()
    "For `slurmgen lint`."


def find_project(start: Path) -> tuple[Path, Project]:
    """The nearest folder upward with a slurmgen.toml, and what it says; else `start` and nothing.

    Raises:
        ConfigError: the file is wrong.
    """
    for folder in (start, *start.parents):
        path = folder / FILE_NAME
        if path.exists() or path.is_symlink():
            return folder, load_project(path)
    return start, Project()


def require_project(folder: Path) -> None:
    """Refuse to go on where `find_project` found none.

    Raises:
        RequestError: the folder has no slurmgen.toml.
    """
    if not (folder / FILE_NAME).is_file():
        raise RequestError(
            f"there is no {FILE_NAME} in {folder} or above it", "`slurmgen init` writes one to start from."
        )


def load_project(path: Path) -> Project:
    """What a slurmgen.toml says.

    Raises:
        ConfigError: a key is unknown or a value is wrong.
    """
    return convert(read_toml(path), Project, path)


def job_request(project: Project, job: str | None, site: str) -> Request:
    """The request of a job on a site: defaults, then the job, then what it says of the site.

    Raises:
        RequestError: there is no such job.
    """
    if job is None:
        return project.defaults
    if job not in project.job:
        raise RequestError(f"there is no job {job!r} in {FILE_NAME}", did_you_mean(job, project.job))
    said = project.job[job]
    plain = Request(**{key: getattr(said, key) for key in Request.__struct_fields__})
    named = Request(name=job)
    return merge(project.defaults, named, plain, said.site.get(site, Request()))


def sites_of(project: Project, job: str) -> tuple[str, ...]:
    """The sites that a job has a checked-in script for: as said, else the file's and its own."""
    said = project.job[job]
    if (sites := said.sites if said.sites is not None else project.sites) is not None:
        return tuple(dict.fromkeys(sites))
    if project.site is None and said.site:
        return tuple(said.site)
    return tuple(dict.fromkeys([project.site or DEFAULT_SITE, *said.site]))


def script_path(project: Project, job: str, site: str) -> Path:
    """Where a job's script for a site is checked in, from the project's folder on."""
    return Path(project.script_dir, f"{job}.{site}.sbatch")


def own_templates(folder: Path, project: Project) -> Path | None:
    """The folder of templates that replace bundled ones, if the project has one."""
    path = folder / project.template_dir
    return path if path.is_dir() else None
