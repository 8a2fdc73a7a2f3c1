"""Project: slurmgen.toml, with named jobs and their differences between sites."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated

from msgspec import Meta, Struct

from slurmgen.errors import ConfigError, RequestError, UnknownJob, did_you_mean
from slurmgen.files import OutsideFolder, is_inside, refuse_links
from slurmgen.paths import bundled, controlled_by_others
from slurmgen.request import Request, merge
from slurmgen.sites.model import Name
from slurmgen.slurm.shell import unprintable
from slurmgen.toml_structs import convert, located, read_toml

FILE_NAME = "slurmgen.toml"
DEFAULT_SITE = "generic"
SAFE_DIRECTORY = "SLURMGEN_SAFE_DIRECTORY"
"Environment variable: folders whose projects are trusted even if another user controls them."
Folder = Annotated[str, Meta(min_length=1)]


class Job(Request, frozen=True):
    """One named job, `[job.NAME]`: a request, and its differences on some sites."""

    depends_on: str | tuple[str, ...] = ()
    "The jobs that must end first, each as JOB or TYPE:JOB, where TYPE is ok (the default), notok or any."
    sites: tuple[Name, ...] | None = None
    "The sites that it has a checked-in script for; default: see `Project.sites`."
    site: dict[Name, Request] = {}
    "Differences on a site."


class Lint(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The lint rules that apply, by the beginnings of their codes."""

    select: tuple[str, ...] = ()
    "Only these; default: all."
    ignore: tuple[str, ...] = ()
    "Not these."


class Project(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of slurmgen.toml."""

    site: str | None = None
    "The default site."
    sites: tuple[Name, ...] | None = None
    "The sites that each job has a checked-in script for; default: `site`, and those of the job's tables."
    script_dir: Folder = "slurm"
    "Folder of the scripts that `render --write` writes."
    template_dir: Folder = "templates"
    "Folder of templates that replace the bundled ones of the same name."
    defaults: Request = Request()
    "For every job, and for a request without a job."
    job: dict[Name, Job] = {}
    lint: Lint = Lint()
    "For `slurmgen lint`."


def find_project(start: Path) -> tuple[Path, Project]:
    """The nearest folder upward with a slurmgen.toml, and its content; else `start` and an empty project.

    As in git, the search ends at the home folder and at the boundary of the file system. A project decides
    what runs on the cluster in the user's name, so one that another user controls is refused.

    Raises:
        ConfigError: the file is wrong, or another user controls it.
    """
    start = start.resolve()
    for folder in _upward(start):
        path = folder / FILE_NAME
        if os.path.lexists(path):
            _refuse_foreign(folder, path)
            return folder, load_project(path)
    for name in ("site_profiles", Project().template_dir):
        if os.path.lexists(start / name):
            _refuse_foreign(start, start / name)
    return start, Project()


def _upward(start: Path) -> Iterator[Path]:
    """The folder and its parents that may be projects."""
    yield start
    home = _home()
    for folder, below in zip(start.parents, (start, *start.parents), strict=False):
        if home in (folder, below) or not _on_one_file_system(folder, below):
            return
        yield folder


def _home() -> Path | None:
    try:
        return Path.home().resolve()
    except RuntimeError:  # a user without a home, as in some containers
        return None


def _on_one_file_system(folder: Path, below: Path) -> bool:
    try:
        return folder.stat().st_dev == below.stat().st_dev
    except OSError:  # it is not accessible
        return False


def _refuse_foreign(folder: Path, path: Path) -> None:
    """Refuse a project that another user controls. Write access of a group is intended, and allowed."""
    allowed = [Path(name).resolve() for name in os.environ.get(SAFE_DIRECTORY, "").split(os.pathsep) if name]
    reason = controlled_by_others(path) or controlled_by_others(folder)
    if reason and not any(folder.is_relative_to(root) for root in allowed):
        raise ConfigError(
            f"{path} is not used: {reason}",
            f"Work in a folder of your own with its own {FILE_NAME}; or, if you trust the users who control "
            f"it, set {SAFE_DIRECTORY}={folder}.",
        )


def require_project(folder: Path) -> None:
    """Refuse a folder in which `find_project` found no project.

    Raises:
        RequestError: the folder has no slurmgen.toml.
    """
    if not (folder / FILE_NAME).is_file():
        raise RequestError(
            f"there is no {FILE_NAME} in {folder} or above it", "`slurmgen init` writes one to start from."
        )


def load_project(path: Path) -> Project:
    """Read a slurmgen.toml.

    Raises:
        ConfigError: a key is unknown or a value is wrong.
    """
    project = convert(read_toml(path), Project, path)
    for key in ("script_dir", "template_dir"):
        text = getattr(project, key)
        folder = PurePosixPath(text)
        if folder.is_absolute() or _OUTSIDE & set(folder.parts) or unprintable(text):
            raise ConfigError(
                f"{located(path, [key])}: {key}: {text!r} is not a folder of the project",
                f"Write a path relative to the folder of {FILE_NAME}, without `..`.",
            )
    return project


_OUTSIDE = {"..", ".git"}


def job_request(project: Project, job: str | None, site: str) -> Request:
    """The request of a job on a site: the defaults, then the job, then its differences on the site.

    Raises:
        RequestError: there is no such job.
    """
    if job is None:
        return project.defaults
    if job not in project.job:
        raise UnknownJob(f"there is no job {job!r} in {FILE_NAME}", did_you_mean(job, project.job))
    entry = project.job[job]
    request = Request(**{key: getattr(entry, key) for key in Request.__struct_fields__})
    return merge(project.defaults, Request(name=job), request, entry.site.get(site, Request()))


def sites_of(project: Project, job: str) -> tuple[str, ...]:
    """The sites that a job has a checked-in script for: its `sites`, else those of the project."""
    entry = project.job[job]
    if (sites := entry.sites if entry.sites is not None else project.sites) is not None:
        return tuple(dict.fromkeys(sites))
    if project.site is None and entry.site:
        return tuple(entry.site)
    return tuple(dict.fromkeys([project.site or DEFAULT_SITE, *entry.site]))


def script_path(project: Project, job: str, site: str) -> Path:
    """The path of a job's checked-in script for a site, relative to the project's folder."""
    return Path(project.script_dir, f"{job}.{site}.sbatch")


def script_folder(folder: Path, project: Project) -> Path:
    """The folder of the checked-in scripts.

    Raises:
        ConfigError: a part of its path is a link, which could lead anywhere.
    """
    try:
        refuse_links(folder, project.script_dir)
    except OutsideFolder as error:
        raise ConfigError(
            f"{folder / project.script_dir}: {error}", "Replace the link by a folder."
        ) from None
    return folder / project.script_dir


def own_templates(folder: Path, project: Project) -> Path | None:
    """The folder of templates that replace bundled ones, if the project has one.

    Raises:
        ConfigError: slurmgen.toml names a folder that does not exist, or a link leads out of the project.
    """
    path = folder / project.template_dir
    if not is_inside(path, folder):
        raise ConfigError(f"{path} leads out of the project", "Put the templates into the project.")
    if project.template_dir != Project().template_dir and not path.is_dir():
        raise ConfigError(
            f"{FILE_NAME}: template_dir: there is no folder {project.template_dir!r}", "Create it."
        )
    is_own = path.is_dir() and path.resolve() != bundled("templates").resolve()
    return path if is_own else None
