"""Checked-in scripts: compare the files with the scripts that slurmgen.toml describes."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from difflib import unified_diff
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Literal, NamedTuple

from slurmgen.config.project import FILE_NAME, Project, job_request, own_templates, script_path, sites_of
from slurmgen.config.user import account_hint
from slurmgen.errors import ConfigError, RequestError, SlurmgenError
from slurmgen.files import read_inside
from slurmgen.plan import Plan, resolve
from slurmgen.program.of_request import with_framework
from slurmgen.render import as_written, has_mark, render_all, signed
from slurmgen.request.model import Request
from slurmgen.request.text import command_line
from slurmgen.sites.model import Site
from slurmgen.sites.profiles import load_site
from slurmgen.sync.files import missing_files, missing_preflight
from slurmgen.toml import located, unreadable

Kind = Literal["outdated", "missing", "edited", "no-job"]

MESSAGES: dict[Kind, str] = {
    "outdated": "out of date",
    "missing": "missing",
    "edited": "edited by hand, or not written by `render --write`",
    "no-job": f"no job of {FILE_NAME} makes it",
}

_NO_NEWLINE = "\n\\ No newline at end of file\n"


class Finding(NamedTuple):
    """A script that differs from slurmgen.toml."""

    path: Path
    kind: Kind
    there: bytes
    wanted: bytes

    @property
    def message(self) -> str:
        """The difference as a message."""
        return MESSAGES[self.kind]


def expected(
    folder: Path,
    project: Project,
    cache_dir: Path | None = None,
    warn: Callable[[str], None] = lambda _warning: None,
) -> dict[Path, bytes]:
    """Every script of the project's jobs, by its file. The user's own profiles have no effect.

    Args:
        warn: called with a message for each file that a job needs and that does not exist.

    Raises:
        ConfigError: a job is not possible on a site, or two jobs make the same file.
    """
    place = cache(lambda name: load_site(name, folder, personal=False))
    plans: dict[Path, Plan] = {}
    pairs = [(job, site) for job in project.job for site in sites_of(project, job)]
    for job, name in pairs:
        with _located(folder / FILE_NAME, job, name):
            path = folder / script_path(project, job, name)
            if path in plans:
                raise RequestError(f"another job makes {path.name} too", "Rename one of the two.")
            plans[path] = _plan(project, job, place(name), folder)
            for warning in missing_files(plans[path], folder) + missing_preflight(plans[path], folder):
                warn(f"job {job} on {name}: {warning}")
    texts = render_all([*plans.values()], own_templates(folder, project), cache_dir)
    return dict(zip(plans, map(signed, texts), strict=True))


def _plan(project: Project, job: str, site: Site, folder: Path) -> Plan:
    request, _ = with_framework(job_request(project, job, site.name), folder)
    try:
        return resolve(request, site, command_line(site.name, Request(), job))
    except RequestError as error:
        raise error.but(after=account_hint(error, request, site)) from None


@contextmanager
def _located(path: Path, job: str, site: str) -> Iterator[None]:
    try:
        yield
    except SlurmgenError as error:
        place = located(path, ["job", job, "site", site], ["job", job])
        as_key = f" In {FILE_NAME} an option is a key of the job." if "--" in error.hint else ""
        raise ConfigError(f"{place}: job {job} on {site}: {error.fact}", error.hint + as_key) from error


def found(folder: Path, scripts: Iterable[Path]) -> dict[Path, bytes]:
    """The content of these files, if they exist, and of all others in the folder that slurmgen wrote."""
    others = {}
    for path in folder.glob("*.sbatch"):
        with suppress(OSError):  # a link, for example, was not written by slurmgen
            others[path] = read_inside(folder, path.name)
    return {path: data for path, data in others.items() if has_mark(data)} | read(scripts)


def read(paths: Iterable[Path]) -> dict[Path, bytes]:
    """The content of the files that exist.

    Raises:
        ConfigError: one is a link, which could lead to anything, or cannot be read.
    """
    return {path: _read(path) for path in paths if os.path.lexists(path) and not path.is_dir()}


def _read(path: Path) -> bytes:
    try:
        return read_inside(path.parent, path.name)
    except OSError as error:
        raise unreadable(path, error) from error


def compare(wanted: Mapping[Path, bytes], there: Mapping[Path, bytes]) -> list[Finding]:
    """The scripts that differ, in the order of their names."""
    return [
        Finding(path, kind, there.get(path, b""), wanted.get(path, b""))
        for path in sorted({*wanted, *there})
        if (kind := _kind(wanted.get(path), there.get(path)))
    ]


def _kind(wanted: bytes | None, there: bytes | None) -> Kind | None:
    if there == wanted:
        return None
    if wanted is None:
        return "no-job"
    if there is None:
        return "missing"
    return "outdated" if as_written(there) else "edited"


def diff(finding: Finding, name: str) -> str:
    """The difference from the file to the expected script; `name` is the name of the file."""
    dates = ("as it is", f"as {FILE_NAME} says")
    lines = unified_diff(_lines(finding.there), _lines(finding.wanted), name, name, *dates)
    return "".join(line if line.endswith("\n") else f"{line}{_NO_NEWLINE}" for line in lines)


def _lines(data: bytes) -> list[str]:
    return list(StringIO(data.decode("utf-8", "backslashreplace")))
