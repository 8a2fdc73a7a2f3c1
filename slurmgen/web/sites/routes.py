"""The addresses of this part of the page."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from slurmgen.errors import closest
from slurmgen.files import read_text
from slurmgen.sites.describe import longest_seconds, overview, sections, sources_of
from slurmgen.web.pages import page, settings_of
from slurmgen.web.sites.compare import compared
from slurmgen.web.sites.profiles import Profiles, profiles
from slurmgen.web.sites.shapes import shapes


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
    themes = compared(known.site(names[0]), known.site(names[1])) if all(names) else ()
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
