"""Where a project's jobs go: the route to a site, and consent to a place that only the project names.

A project may be untrusted. Its profiles say what a cluster is like. They do not decide which host of the user
is that cluster, nor that this machine is.
"""

from pathlib import Path
from typing import ClassVar, Protocol

from slurmgen.config.user import FILE_NAME, Personal, load_personal
from slurmgen.errors import ConfigError, RequestError
from slurmgen.files import state_folder
from slurmgen.ledger.ledger import StateFile
from slurmgen.remote.route import Route, SshClient, Via, find_route
from slurmgen.sites.model import Site
from slurmgen.sites.profiles import comes_from_project, load_site, profile_paths, states_login
from slurmgen.text import visible

_PLACE = ""
"Instead of a secret's name, in a consent to the place itself."


class Confirm(Protocol):
    """Asks the user on the terminal."""

    def confirms(self, question: str, /) -> bool:
        """Whether the user says yes."""


class Consents(StateFile):
    """What the user agreed to once: a secret, or the place itself, for a project and the place."""

    migrations: ClassVar[tuple[tuple[str, ...], ...]] = (
        (
            "CREATE TABLE consents (project TEXT NOT NULL, name TEXT NOT NULL, place TEXT NOT NULL, "
            "PRIMARY KEY (project, name, place))",
        ),
    )
    name = "the list of consents"
    purpose = "it records which projects may send which secrets, and where their jobs may go"
    loss = "slurmgen then asks for your consent again"

    def __init__(self, path: Path | None = None) -> None:
        super().__init__(path or state_folder() / "secrets.sqlite")

    def has(self, project: str, name: str, route: Route) -> bool:
        """Whether the user has agreed."""
        query = "SELECT 1 FROM consents WHERE project = ? AND name = ? AND place = ?"
        with self._reading() as database:
            return bool(database and database.execute(query, (project, name, _place(route))).fetchone())

    def add(self, project: str, name: str, route: Route) -> None:
        """Remember that the user agrees."""
        with self._writing() as database:
            database.execute(
                "INSERT OR IGNORE INTO consents VALUES (?, ?, ?)", (project, name, _place(route))
            )


def _place(route: Route) -> str:
    return f"{route.site} {route.via} {route.host or ''}".strip()


def route_of(
    site: Site,
    personal: Personal,
    project_dir: Path,
    ask: Confirm | None = None,
    *,
    connects: bool = True,
    via: Via | None = None,
    host: str | None = None,
    ssh_config: str | None = None,
    ssh_client: SshClient | None = None,
) -> Route:
    """The route to a site of a project, as `find_route`; a place that only the project names needs consent.

    Args:
        personal: the user's own settings for it.
        project_dir: the project, which may have a profile of the site.
        ask: asks the user; None without a terminal.
        connects: whether the command connects or runs something there; otherwise nothing is asked.
        via, host, ssh_config, ssh_client: as for `find_route`.

    Raises:
        RequestError: the user does not agree.
        ConfigError: the route is over SSH, but no host is known; or a profile cannot be read.
    """
    route = find_route(site, personal, via=via, host=host, ssh_config=ssh_config, ssh_client=ssh_client)
    is_chosen = via in ("local", "twin") or bool(host or personal.host)
    if connects and not is_chosen and not _is_own_place(site.name, site.login.host, project_dir):
        _require_consent(route, project_dir, ask)
    return route


def is_own_place(route: Route, project_dir: Path) -> bool:
    """Whether the user's settings, or a profile outside the project, name the place of a route."""
    host = (route.host or "").rpartition("@")[2] or None
    own = (load_personal(route.site).host or "").rpartition("@")[2]
    return route.via == "twin" or host == own or _is_own_place(route.site, host, project_dir)


def _is_own_place(site: str, host: str | None, project_dir: Path) -> bool:
    if not comes_from_project(site, project_dir):
        return True
    return host is not None and host == _own_host(site, project_dir)


def _own_host(site: str, project_dir: Path) -> str | None:
    if known := _known(site):
        return known.login.host
    return None if states_login(site, project_dir) else load_site(site, project_dir).login.host


def _known(site: str) -> Site | None:
    """The site of that name without the project, which the user expects."""
    try:
        return load_site(site) if site in profile_paths() else None
    except ConfigError:  # it extends a profile of the project
        return None


def _require_consent(route: Route, project_dir: Path, ask: Confirm | None) -> None:
    project, consents = str(project_dir.resolve()), Consents()
    if consents.has(project, _PLACE, route):
        return
    site, place = route.site, f"the host {route.host}" if route.host else "this machine"
    fact = f"site_profiles/ of {visible(project)} makes {place} the place of the site {site}{_expected(site)}"
    if not (ask and ask.confirms(f"{fact}. Use it, and run the project's code there? [y/N] ")):
        raise RequestError(
            f"{fact}; you have not agreed",
            f"If you trust the project with it, add {_how(route)}. On a terminal, slurmgen asks once.",
        )
    consents.add(project, _PLACE, route)


def _how(route: Route) -> str:
    if not route.host:
        return "--via local"
    return f'--host {route.host}, or write `host = "{route.host}"` below [{route.site}] in {FILE_NAME}'


def _expected(site: str) -> str:
    known = _known(site)
    if known is None:
        return ""
    return f", whose login host is {known.login.host}" if known.login.host else ", which has no login host"
