"""Route: how a site is reached. It is stored with each job, so that the job can be found again."""

import random
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, structs

from slurmgen.errors import ConfigError, ConnectionBroke, LoginDropped
from slurmgen.remote.transport import Transport

if TYPE_CHECKING:
    from slurmgen.config.user import Personal
    from slurmgen.remote.ssh.destination import Destination
    from slurmgen.remote.ssh.prompt import Prompt
    from slurmgen.sites.model import Login, Site

Via = Literal["ssh", "local", "twin"]
SshClient = Literal["paramiko", "openssh"]
PAUSES = (0.5, 1.0, 2.0, 4.0, 6.0, 6.0, 6.0, 6.0)
"Seconds, on average, before a login that the host drops is begun again."
_NAME_A_HOST = (
    "Name the login host with --host, as `host` in personal.toml, or as [login] host in the profile;"
)


class Route(Struct, frozen=True, kw_only=True):
    """How one site is reached. It holds no secret."""

    site: str
    via: Via
    host: str | None = None
    "`[USER@]HOST` for SSH, often an alias in ssh_config."
    ssh_config: str | None = None
    ssh_client: SshClient = "paramiko"

    @property
    def place(self) -> str:
        """The site or its twin, within a sentence."""
        return f"the twin of {self.site}" if self.via == "twin" else self.site

    @property
    def short_place(self) -> str:
        """The same, in a column of a table."""
        return f"{self.site} twin" if self.via == "twin" else self.site


def find_route(
    site: "Site",
    personal: "Personal",
    *,
    via: Via | None = None,
    host: str | None = None,
    ssh_config: str | None = None,
    ssh_client: SshClient | None = None,
) -> Route:
    """The route to a site: by the given options, else by the user's personal file, else by the profile.

    A user in `host` takes precedence over that of the personal file, and that one over ssh_config's.

    Raises:
        ConfigError: the route is over SSH, but no host is known.
    """
    host = host or personal.host or site.login.host
    via = via or ("ssh" if host else "local")
    if via != "ssh":
        return Route(site=site.name, via=via)
    if not host:
        from slurmgen.remote.login_advice import login_of

        note = login_of(site.name).note or ""
        raise ConfigError(
            f"site {site.name} has no login host",
            f"{_NAME_A_HOST} or use --via local on a login node. {note}".rstrip(),
        )
    if personal.user and "@" not in host:
        host = f"{personal.user}@{host}"
    return Route(
        site=site.name,
        via=via,
        host=host,
        ssh_config=ssh_config or personal.ssh_config,
        ssh_client=ssh_client or personal.ssh_client or "paramiko",
    )


def open_route(route: Route, prompt: "Prompt | None" = None) -> Transport:
    """Connect to a site.

    Args:
        route: how the site is reached.
        prompt: reads a password from the terminal; None without a terminal.

    Raises:
        RemoteError: the host cannot be reached, has an unknown key, or refuses the login.
        ConfigError: the route is this machine, which has no Slurm.
        TwinError: the route is a twin that is not running.
    """
    if route.via == "ssh":
        return _let_in(lambda: _logged_in(route, prompt))
    from slurmgen.remote.local import LocalTransport

    if route.via == "twin":
        from slurmgen import twin

        return LocalTransport(twin.find(route.site).environ())
    _require_slurm(route)
    return LocalTransport()


def destination_of(route: Route) -> "tuple[Destination, Login]":
    """The host of a route over SSH, and what the site's profile says about logins.

    A host without ProxyJump and ProxyCommand in ssh_config gets the jump host of the profile.

    Raises:
        RequestError, ConfigError: see `destination`.
    """
    from slurmgen.remote.login_advice import is_about, jump_host, login_of
    from slurmgen.remote.ssh.config import destination
    from slurmgen.sites.model import Login

    login, host = login_of(route.site), route.host or ""
    to = destination(host, route.ssh_config, jump_host(login, host))
    return to, login if is_about(login, to) else Login()


def uses_openssh(route: Route, to: "Destination") -> bool:
    """Whether OpenSSH's client is used: it is chosen, or the user has a connection open that it shares."""
    if route.ssh_client == "openssh" or not to.sharing or not Path(to.sharing.path).is_socket():
        return route.ssh_client == "openssh"
    from slurmgen.remote.ssh.openssh_command import for_shared, is_shared

    return is_shared(for_shared(to, to.sharing.path), to.alias)


def with_personal(route: Route, personal: "Personal") -> Route:
    """A recorded route with the client and ssh_config of the user's personal file, where it names them."""
    chosen = {"ssh_client": personal.ssh_client, "ssh_config": personal.ssh_config}
    return structs.replace(route, **{name: value for name, value in chosen.items() if value})


def _let_in(log_in: Callable[[], Transport]) -> Transport:
    """Log in; again if the connection breaks, and for some time if the host drops it at its beginning.

    sshd drops some new connections if more than MaxStartups, mostly 10, are not logged in yet. Many commands
    that start at once then need pauses of different lengths (https://man.openbsd.org/sshd_config#MaxStartups).
    """
    broke = False
    for pause in PAUSES:
        try:
            return log_in()
        except LoginDropped:
            pass
        except ConnectionBroke:
            if broke:
                raise
            broke = True
        time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311
    return log_in()


def _logged_in(route: Route, prompt: "Prompt | None") -> Transport:
    """Log in, or use a connection that is shared already, which needs no certificate."""
    from slurmgen.remote.login_advice import advised, check_certificates

    to, login = destination_of(route)
    check = partial(check_certificates, route.site, login, to)
    advice = advised(route.site, login, to, interactive=prompt is not None)
    if uses_openssh(route, to):
        from slurmgen.remote.ssh import openssh

        with openssh.Login(to, prompt, check) as attempt, advice:
            return attempt.transport()
    else:
        from slurmgen.remote.ssh import paramiko

        check()
        with advice:
            return paramiko.connect(to, prompt)
    raise AssertionError  # pragma: no cover (`advised` suppresses no error)


def _require_slurm(route: Route) -> None:
    """Refuse to use this machine as a login node if it has no Slurm."""
    if shutil.which("sbatch") is None:
        raise ConfigError(
            f"site {route.site} is used from this machine (--via local, the default without a login host), "
            "which has no Slurm: there is no sbatch on PATH",
            f"{_NAME_A_HOST} or run slurmgen on a login node.",
        )
