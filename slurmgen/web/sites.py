"""The pages of sites."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import urlencode

from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from slurmgen.config.project import find_project
from slurmgen.errors import ConfigError, SlurmgenError, closest
from slurmgen.files import bundled, config_folder, read_text
from slurmgen.plan import resolve
from slurmgen.render import render
from slurmgen.request.model import Request as JobRequest
from slurmgen.sites.describe import Overview, Section, longest_seconds, overview, plain, sections, sources_of
from slurmgen.sites.model import Site
from slurmgen.sites.nodes import SIX_SHAPES, SIZES, shape_request
from slurmgen.sites.profiles import lineage, load_site, profile_paths
from slurmgen.web.pages import page, settings_of

Facts = dict[str, dict[str, str]]
"Facts by theme and name."


def compared(first: Site, second: Site) -> dict[str, list[tuple[str, str, str]]]:
    """All facts of two sites by theme, in the order of their pages; empty where a profile states none."""
    facts = _themes(first), _themes(second)
    themes = {title: [one.get(title, {}) for one in facts] for title in {**facts[0], **facts[1]}}
    return {
        title: [(name, one.get(name, ""), other.get(name, "")) for name in {**one, **other}]
        for title, (one, other) in themes.items()
    }


def _themes(site: Site) -> Facts:
    themes = {section.title: _rows(section) for section in sections(site)}
    return {"Overview": _line(overview(site)), **themes}


def _line(facts: Overview) -> dict[str, str]:
    return {
        "GPUs": ", ".join(facts.gpu_types),
        "GPUs of a node": ", ".join(map(str, facts.gpus_per_node)),
        "container engines": ", ".join(facts.engines),
        "longest time": facts.max_time,
        "newest source": facts.newest_source,
    }


def _rows(section: Section) -> dict[str, str]:
    rows: dict[str, str] = {}
    for row in section.rows:
        before = f"{rows[row.cells[0]]}; " if row.cells[0] in rows else ""
        rows[row.cells[0]] = before + (plain(section, row) or "listed")
    return rows


class Listed(Struct, frozen=True):
    """A profile in the list; one that is not valid has an error instead of facts."""

    name: str
    origin: str
    "Whose file it is: `yours`, `project`, or empty for a bundled one."
    facts: Overview | None = None
    error: str = ""

    @property
    def title(self) -> str:
        """Its title; its name if the profile states none, or is not valid."""
        return (self.facts and self.facts.title) or self.name


class Profiles(Struct, frozen=True):
    """Where the profiles of a server come from."""

    public: bool
    project: Path | None

    def paths(self) -> dict[str, Path]:
        """Every profile by name."""
        return profile_paths(self.project, personal=not self.public)

    def site(self, name: str) -> Site:
        """The site of that name.

        Raises:
            ConfigError: there is no such profile, or it is not valid.
        """
        return _bundled_site(name) if self.public else load_site(name, self.project)

    def files(self, name: str) -> tuple[tuple[Path, str], ...]:
        """The file of a profile and those that it extends, each with its origin."""
        paths = lineage(name, self.project, personal=not self.public)
        return tuple((path, origin(path)) for path in paths)

    def listed(self) -> tuple[Listed, ...]:
        """Every profile in a line, in alphabetical order."""
        return _bundled() if self.public else tuple(_listed(self))


def _listed(profiles: Profiles) -> Iterator[Listed]:
    for name, path in profiles.paths().items():
        try:
            yield Listed(name, origin(path), overview(profiles.site(name)))
        except ConfigError as error:
            yield Listed(name, origin(path), error=str(error))


@cache
def _bundled_site(name: str) -> Site:
    return load_site(name, personal=False)


@cache
def _bundled() -> tuple[Listed, ...]:
    return tuple(_listed(Profiles(public=True, project=None)))


def profiles(*, public: bool) -> Profiles:
    """Those of the server, whose project is that of its working folder.

    Raises:
        ConfigError: the project cannot be read.
    """
    return Profiles(public, None if public else find_project(Path.cwd())[0])


def origin(path: Path) -> str:
    """Whose file a profile is."""
    if path.parent == bundled("site_profiles"):
        return ""
    return "yours" if path.is_relative_to(config_folder()) else "project"


def show_all(request: Request) -> Response:
    """The list of all profiles."""
    sites = _profiles(request).listed()
    return page(request, "sites.html", sites=sites, seconds=longest_seconds)


def show_one(request: Request) -> Response:
    """All that a profile states, with the source of each fact."""
    known, name = _profiles(request), request.path_params["name"]
    if name not in known.paths():
        return _unknown(request, name, known)
    site = known.site(name)
    facts = sections(site)
    return page(
        request,
        "sites_one.html",
        site=site,
        overview=overview(site),
        files=known.files(name),
        sections=facts,
        sources=sources_of(site, [row.key for section in facts for row in section.rows]),
        shapes=shapes(site),
    )


def show_file(request: Request) -> Response:
    """The text of a profile, or of one that it extends."""
    known, name = _profiles(request), request.path_params["name"]
    files = known.files(name) if name in known.paths() else ()
    layers = {str(number): path for number, (path, _) in enumerate(files)}
    if request.path_params["layer"] not in layers:
        raise HTTPException(404, "There is no such profile")
    return PlainTextResponse(read_text(layers[request.path_params["layer"]]))


def show_two(request: Request) -> Response:
    """Two profiles side by side; without names, only the choice."""
    known = _profiles(request)
    names = [request.query_params.get(side, "") for side in ("a", "b")]
    paths = known.paths()
    for name in names:
        if name and name not in paths:
            return _unknown(request, name, known)
    themes = compared(known.site(names[0]), known.site(names[1])) if all(names) else {}
    return page(request, "sites_compare.html", first=names[0], second=names[1], names=paths, themes=themes)


def _profiles(request: Request) -> Profiles:
    return profiles(public=settings_of(request).public)


def _unknown(request: Request, name: str, known: Profiles) -> Response:
    similar = closest(name, known.paths())
    return page(request, "sites_unknown.html", 404, name=name[:100], similar=similar)


ROUTES = (
    Route("/sites", show_all),
    Route("/sites/compare", show_two),
    Route("/sites/{name}", show_one),
    Route("/sites/{name}/profile-{layer}.toml", show_file),
)

_FIELDS = ("framework", "gpus", "nodes", "qos")


def shapes(site: Site) -> list[dict[str, str]]:
    """Each shape on a site: its script with its fields in the generator's address, or why there is none.

    A required account has an example value.
    """
    return [_shape(site, framework, size) for framework, size in SIX_SHAPES]


def _shape(site: Site, framework: str, size: str) -> dict[str, str]:
    title = f"{framework} on {SIZES[size]}"
    try:
        request = shape_request(site, framework, size)
        script = render(resolve(request, site))
    except SlurmgenError as error:
        return {"title": title, "script": "", "refusal": str(error)}
    return {"title": title, "script": script, "fields": _fields(site, request)}


def _fields(site: Site, request: JobRequest) -> str:
    values = {name: getattr(request, name) for name in _FIELDS}
    return urlencode(
        {"site": site.name} | {name: value for name, value in values.items() if value is not None}
    )
