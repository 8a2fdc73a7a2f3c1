"""slurmgen.toml: the jobs of a project, their dependencies and sweeps.

A wrong file raises ConfigError with its line; the name of a job that it does not have raises RequestError.
"""

import csv
import io
import json
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, ValidationError, structs, to_builtins

from slurmgen.errors import ConfigError, RequestError, UnknownJob, did_you_mean, shortened
from slurmgen.files import (
    MAX_TEXT,
    OutsideFolder,
    bundled,
    controlled_by_others,
    is_inside,
    read_inside,
    refuse_links,
)
from slurmgen.request.model import ParameterName, Request, Sweep, merge
from slurmgen.sites.model import Name
from slurmgen.sites.profiles import profile_paths
from slurmgen.slurm.dependencies import After, parse
from slurmgen.slurm.shell import unprintable
from slurmgen.text import toml_key, toml_value, visible
from slurmgen.toml import convert, located, read_toml, table_statements

FILE_NAME = "slurmgen.toml"
DEFAULT_SITE = "generic"
SAFE_DIRECTORY = "SLURMGEN_SAFE_DIRECTORY"
"Environment variable: folders whose projects are trusted even if another user controls them."
Folder = Annotated[str, Meta(min_length=1)]


class Defaults(Request, frozen=True):
    """For every job, `[defaults]`: a request, and its differences on some sites."""

    site: dict[Name, Request] = {}
    "Differences on a site."


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
    defaults: Defaults = Defaults()
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
    """Refuse a folder in which `find_project` found no project."""
    if not (folder / FILE_NAME).is_file():
        raise RequestError(
            f"there is no {FILE_NAME} in {folder} or above it", "`slurmgen init` writes one to start from."
        )


def load_project(path: Path) -> Project:
    """Read a slurmgen.toml."""
    project = convert(read_toml(path), Project, path)
    for key in ("script_dir", "template_dir"):
        text = getattr(project, key)
        folder = PurePosixPath(text)
        if folder.is_absolute() or {"..", ".git"} & set(folder.parts) or unprintable(text):
            raise ConfigError(
                f"{located(path, [key])}: {key}: {text!r} is not a folder of the project",
                f"Write a path relative to the folder of {FILE_NAME}, without `..`.",
            )
    return project


def job_request(project: Project, job: str | None, site: str) -> Request:
    """The request of a job on a site, of all `layers`."""
    return merge(*(request for _, request in layers(project, job, site)))


def layers(project: Project, job: str | None, site: str) -> list[tuple[str, Request]]:
    """The tables that apply to a job on a site, with their names; a later one overrules an earlier one."""
    found: list[tuple[str, Request]] = [("[defaults]", project.defaults)]
    if site in project.defaults.site:
        found.append((f"[defaults.site.{toml_key(site)}]", project.defaults.site[site]))
    if job is None:
        return found
    entry, table = _job(project, job), f"job.{toml_key(job)}"
    found += [(f"[{table}]", Request(name=job)), (f"[{table}]", entry)]
    if site in entry.site:
        found.append((f"[{table}.site.{toml_key(site)}]", entry.site[site]))
    return found


def _job(project: Project, name: str) -> Job:
    if name not in project.job:
        raise UnknownJob(f"there is no job {name!r} in {FILE_NAME}", did_you_mean(name, project.job))
    return project.job[name]


def site_of_script(path: Path, project: Project, project_dir: Path) -> str | None:
    """The site of a batch script: SITE if it is called NAME.SITE.sbatch, else the site of slurmgen.toml."""
    name = Path(path.stem).suffix.removeprefix(".") if path.suffix == ".sbatch" else ""
    return name if name in profile_paths(project_dir) else project.site


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


def needs(project: Project, job: str) -> tuple[After, ...]:
    """What a job depends on, by the names of the jobs in slurmgen.toml."""
    words = project.job[job].depends_on
    return tuple(map(parse, (words,) if isinstance(words, str) else words))


def depends_on(project: Project, job: str, site: str) -> tuple[After, ...]:
    """The jobs that a job depends on, by the names that Slurm has for them."""
    return tuple(
        After(job_request(project, one.job, site).name or one.job, one.type, of_project=True)
        for one in needs(project, job)
    )


def in_order(project: Project, names: Iterable[str]) -> list[str]:
    """Jobs in an order in which each comes after those that it depends on; the error for a cycle names it."""
    chosen = dict.fromkeys(names)
    graph = {name: [one.job for one in needs(project, name) if one.job in chosen] for name in chosen}
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        cycle = " depends on ".join(reversed(error.args[1]))
        raise RequestError(
            f"jobs depend on each other: {cycle}", "Remove one of these dependencies."
        ) from None


def with_dependencies(project: Project, job: str | None) -> list[str]:
    """A job and those that it depends on, directly or not, in order; without a name, all jobs."""
    if job is not None:
        _job(project, job)
    waiting, found = [job] if job else list(project.job), list[str]()
    while waiting:
        if (name := waiting.pop()) not in found:
            found.append(name)
            waiting += [one.job for one in needs(project, name)]
    return in_order(project, [name for name in project.job if name in found])


def check_dependencies(project: Project, project_dir: Path) -> None:
    """Refuse a dependency on a job that slurmgen.toml does not have, and jobs that depend on each other."""
    dependent = [name for name, job in project.job.items() if job.depends_on]
    for name in dependent:
        try:
            unknown = next((one.job for one in needs(project, name) if one.job not in project.job), None)
        except RequestError as error:
            raise ConfigError(f"{_place(project_dir, name)}: {error.fact}", error.hint) from None
        if unknown:
            raise ConfigError(
                f"{_place(project_dir, name)}: job {name} depends on {unknown!r}, "
                f"which {FILE_NAME} does not have",
                did_you_mean(unknown, project.job),
            )
    try:
        in_order(project, dependent)
    except RequestError as error:
        raise ConfigError(f"{_place(project_dir, dependent[0])}: {error.fact}", error.hint) from None


def _place(project_dir: Path, job: str) -> str:
    return located(project_dir / FILE_NAME, ["job", job, "depends_on"])


_SHORT = 90
"Characters of a list that is written in one line."


def table_of(name: str, request: Request, origin: str = "") -> str:
    """The table of a job, with a comment on where it comes from."""
    values: dict[str, Any] = to_builtins(request)
    comment = f"  # adopted from {visible(origin)}" if origin else ""
    lines = [f"{key} = {_value(value)}\n" for key, value in values.items() if (key, value) != ("name", name)]
    return "".join([f"[job.{toml_key(name)}]{comment}\n", *lines])


def _value(value: Any) -> str:
    text = toml_value(value)
    if not isinstance(value, list | tuple) or len(text) <= _SHORT:
        return text
    return "\n".join(["[", *(f"    {toml_value(item)}," for item in value), "]"])


def with_job(text: str, name: str, table: str, path: Path, *, replace: bool = False) -> str:
    """A slurmgen.toml with one more job at its end, unless it has one of that name already.

    Args:
        text: the file; empty for a new one.
        table: what `table_of` returned.
        path: the file, for errors.
        replace: replace a job of that name.
    """
    has_job = name in tomllib.loads(text).get("job", {})
    if has_job and not replace:
        raise RequestError(
            f"{FILE_NAME} has a job {name!r} already", "Name another with --name, or replace it with --force."
        )
    kept = "".join(_without(text, name)) if has_job else text
    made = f"{kept.rstrip()}\n\n{table}" if kept.strip() else table
    try:
        found = convert(tomllib.loads(made), Project, path)
    except tomllib.TOMLDecodeError:
        found = Project()
    if found.job.get(name, Job()) != convert(tomllib.loads(table), Project, path).job[name]:
        raise ConfigError(
            f"{path}: a table [job.{toml_key(name)}] cannot be added to it",
            "Write each job as a table of its own, [job.NAME].",
        )
    return made


def _without(text: str, name: str) -> Iterator[str]:
    """The parts of the file without the statements of a job; comments stay."""
    for table, statement in table_statements(text):
        is_comment = not statement.strip() or statement.lstrip().startswith("#")
        if is_comment or table[:2] != ("job", name):
            yield statement


def with_file(sweep: Sweep, folder: Path) -> Sweep:
    """The sweep with the content of its file instead of the file's name; unchanged if it names none.

    Raises:
        ConfigError: the file cannot be read, or is not a table of parameters.
    """
    if sweep.file is None or sweep.grid is not None or sweep.list is not None:
        return sweep
    path, kind = folder / sweep.file, PurePosixPath(sweep.file).suffix
    if kind not in _READERS:
        raise ConfigError(
            f"sweep.file: {sweep.file!r} is of none of the kinds {', '.join(_READERS)}",
            "Rename it, or write another.",
        )
    try:
        rows = msgspec.convert(
            _READERS[kind](_text(folder, sweep.file)), list[dict[ParameterName, str | bool]]
        )
    except OSError as error:
        raise ConfigError(
            f"sweep.file: {path} cannot be read: {error.strerror or error}",
            f"It must be a regular file of the project, of at most {MAX_TEXT:,} bytes.",
        ) from None
    except (ValueError, RecursionError, csv.Error, ValidationError) as error:
        raise ConfigError(f"sweep.file: {path}: {shortened(str(error))}", _HINT) from None
    return structs.replace(sweep, file=None, list=tuple(rows))


_HINT = "Each run is a row of CSV below a header, or an object of JSON with texts, numbers and booleans."


def _text(folder: Path, name: str) -> str:
    return read_inside(folder, name).decode("utf-8-sig")


def _csv(text: str) -> list[dict[Any, Any]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    names = list(reader.fieldnames or ())
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"the header has {twice} twice")
    rows = list(reader)
    for number, row in enumerate(rows, 1):
        if None in row or None in row.values():
            raise ValueError(f"row {number} below the header has more or fewer cells than it")
    return rows


def _json(text: str) -> Any:
    # Numbers stay as they are written: 1e-3 is not 0.001 to every program.
    return json.loads(text, parse_float=str, parse_int=str, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"an object has a name twice: {', '.join(name for name, _ in pairs)}")
    return found


def _json_lines(text: str) -> list[Any]:
    return [_json(line) for line in text.split("\n") if line.strip()]


_READERS: dict[str, Callable[[str], Any]] = {".csv": _csv, ".json": _json, ".jsonl": _json_lines}
