"""Project: slurmgen.toml, with named jobs and what differs from site to site."""

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from slurmgen.config import convert, read_toml
from slurmgen.errors import RequestError, did_you_mean
from slurmgen.request import Request, merge
from slurmgen.site import Name

FILE_NAME = "slurmgen.toml"
Folder = Annotated[str, Meta(min_length=1)]


class Job(Request, frozen=True):
    """One named job, `[job.NAME]`: a request, and what differs on some sites."""

    site: dict[Name, Request] = {}


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
        if path.is_file():
            return folder, load_project(path)
    return start, Project()


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
