"""The route to a site: this machine, or SSH to its login node."""

import contextlib
import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from msgspec import Struct, structs

from slurmgen.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectionBroke,
    ConnectionFailed,
    LoginDropped,
    SlurmgenError,
)
from slurmgen.remote.ssh.prompt import Prompt
from slurmgen.remote.transport import Transport
from slurmgen.sites.model import Login
from slurmgen.text import counted

if TYPE_CHECKING:
    from slurmgen.config.user import Personal
    from slurmgen.remote.ssh import openssh
    from slurmgen.remote.ssh.config import Destination
    from slurmgen.sites.model import Site

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
    from slurmgen.remote.ssh.config import destination
    from slurmgen.sites.model import Login

    login, host = login_of(route.site), route.host or ""
    to = destination(host, route.ssh_config, jump_host(login, host))
    return to, login if is_about(login, to) else Login()


def uses_openssh(route: Route, to: "Destination") -> bool:
    """Whether OpenSSH's client is used: it is chosen, or the user has a connection open that it shares."""
    if route.ssh_client == "openssh" or not to.sharing or not Path(to.sharing.path).is_socket():
        return route.ssh_client == "openssh"
    from slurmgen.remote.ssh.openssh import for_shared, is_shared

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


def _way(
    route: Route, prompt: "Prompt | None"
) -> "tuple[Destination, Callable[[], None], contextlib.AbstractContextManager[None]]":
    """The host of a route, the check before a login, and the advice if that fails."""
    to, login = destination_of(route)
    check = partial(check_certificates, route.site, login, to)
    return to, check, advised(route.site, login, to, interactive=prompt is not None)


def _logged_in(route: Route, prompt: "Prompt | None") -> Transport:
    """Log in, or use a connection that is shared already, which needs no certificate."""
    to, check, advice = _way(route, prompt)
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
    if shutil.which("sbatch") is None:
        raise ConfigError(
            f"site {route.site} is used from this machine (--via local, the default without a login host), "
            "which has no Slurm: there is no sbatch on PATH",
            f"{_NAME_A_HOST} or run slurmgen on a login node.",
        )


_END_TIMEOUT = 2.0
"Seconds that an unused login may take to end; after that it ends with the process."


class BackgroundLogin:
    """A login that starts when the block begins. If `transport` was not called, it ends with the block.

    Only `transport` raises the errors of the login, so that errors in local files are reported first.
    """

    def __init__(self, route: Route, prompt: Prompt | None = None, *, starts: bool = True) -> None:
        self._route = route
        self._prompt = prompt
        self._starts = starts and route.via == "ssh"
        self._resources = contextlib.ExitStack()
        self._pending: _LoginThread | openssh.Login | None = None
        self._advice: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        self._error: SlurmgenError | None = None

    def __enter__(self) -> Self:
        if self._starts:
            try:
                self._pending = self._started()
            except SlurmgenError as error:
                self._error = error
        return self

    def transport(self) -> Transport:
        """Wait for the login to finish.

        Raises:
            RemoteError, ConfigError, TwinError: as `open_route`.
        """
        if self._error:
            raise self._error
        if isinstance(self._pending, _LoginThread):
            return self._pending.transport()
        if self._pending:
            with contextlib.suppress(ConnectionBroke), self._advice:
                return self._pending.transport()
        return open_route(self._route, self._prompt)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.__exit__(kind, error, trace)

    def _started(self) -> "_LoginThread | openssh.Login":
        # A thread that finds a shared connection uses it: that needs no prompt.
        if self._route.ssh_client != "openssh":
            return self._resources.enter_context(_LoginThread(self._route, self._prompt))
        from slurmgen.remote.ssh.openssh import Login

        to, check, self._advice = _way(self._route, self._prompt)
        return self._resources.enter_context(Login(to, self._prompt, check))


class _LoginThread:
    """A login in a thread; it shows no prompt before `transport` is called."""

    def __init__(self, route: Route, prompt: Prompt | None) -> None:
        self._route = route
        self._wanted = threading.Event()
        self._prompt = _DeferredPrompt(prompt, self._wanted) if prompt else None
        self._login: Future[Transport] = Future()
        # Not a thread of a pool, for which Python would wait at exit.
        self._thread = threading.Thread(target=self._log_in, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def transport(self) -> Transport:
        """Wait for the login to finish."""
        self._wanted.set()
        login, self._login = self._login.result(), Future()
        return login

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._prompt and not self._wanted.is_set():
            self._prompt.is_cancelled = True
            self._wanted.set()
        unwanted = self._login
        unwanted.add_done_callback(_close)
        if kind is not KeyboardInterrupt:  # then it may be waiting at a prompt
            self._thread.join(_END_TIMEOUT)

    def _log_in(self) -> None:
        login = self._login
        try:
            login.set_result(open_route(self._route, self._prompt))
        except BaseException as error:  # `transport` raises it
            login.set_exception(error)


def _close(unwanted: Future[Transport]) -> None:
    if not unwanted.exception():
        unwanted.result().close()


class _DeferredPrompt:
    """A prompt that waits until the login is wanted."""

    def __init__(self, prompt: Prompt, wanted: threading.Event) -> None:
        self._prompt = prompt
        self._wanted = wanted
        self.is_cancelled = False

    def __call__(self, prompt: str, /) -> str:
        """See Prompt."""
        self._wait()
        return self._prompt(prompt)

    def show(self, text: str, /) -> None:
        """See Prompt."""
        self._wait()
        self._prompt.show(text)

    def _wait(self) -> None:
        self._wanted.wait()
        if self.is_cancelled:
            raise EOFError


def login_of(site: str) -> Login:
    """The login facts of a site; all unset if the user has no such profile, and none is bundled."""
    from slurmgen.sites.profiles import load_site

    try:
        return load_site(site).login
    except ConfigError:
        return Login()


def jump_host(login: Login, host: str) -> str | None:
    """The jump host of a profile for `[USER@]HOST`, if that is a login host and not a jump host itself.

    The user of the host is that of the jump host too.
    """
    user, _, alias = host.rpartition("@")
    if login.jump_host is None or alias.lower() not in {*_hosts(login)} - _jump_hosts(login.jump_host):
        return None
    return f"{user}@{login.jump_host}" if user and "@" not in login.jump_host else login.jump_host


def _jump_hosts(value: str) -> set[str]:
    return {spec.rpartition("@")[2].partition(":")[0].strip().lower() for spec in value.split(",")}


def is_about(login: Login, to: "Destination") -> bool:
    """Whether the facts of a profile are about a host: one that it names, or any if it names none."""
    return login.host is None or bool({to.alias.lower(), to.host} & {*_hosts(login)})


def check_certificates(site: str, login: Login, to: "Destination") -> None:
    """Refuse a login that must fail: it needs a certificate, and all have expired.

    Raises:
        AuthenticationFailed: they have, and there is no agent that may hold another one.
    """
    if _needs_certificate(login) and _all_expired(to):
        raise AuthenticationFailed(
            f"{to.alias} was not contacted: {_certificates(to)}", _renewal(site, login)
        )


@contextmanager
def advised(site: str, login: Login, to: "Destination", *, interactive: bool) -> Iterator[None]:
    """Add what the profile says to the error of a login that fails.

    Raises:
        AuthenticationFailed, ConnectionFailed: as within the block.
    """
    try:
        yield
    except AuthenticationFailed as error:
        if _needs_certificate(login):
            hint = f"{_renewal(site, login)} {_sentence(_certificates(to))}"
        elif login.methods and "key" not in login.methods:
            hint = _without_keys(site, login, to, interactive=interactive)
        else:
            hint = error.hint + ("" if interactive else _unattended(login, to))
        raise AuthenticationFailed(error.fact, hint + _note(login)) from error
    except ConnectionFailed as error:
        hint = error.hint + _others(site, login, to) + _note(login)
        raise type(error)(error.fact, hint) from error


def _hosts(login: Login) -> list[str]:
    hosts = (login.host, *login.other_hosts, login.automation_host)
    return [host.lower() for host in hosts if host]


def _needs_certificate(login: Login) -> bool:
    return "certificate" in login.methods or login.certificate_command is not None


def _expiries(to: "Destination") -> dict[Path, float]:
    from slurmgen.remote.ssh import authenticate

    files = [path for host in to.chain for path in host.certificate_files]
    files += [authenticate.certificate_beside(path) for host in to.chain for path in host.identity_files]
    found = {path: authenticate.certificate_expiry(path) for path in files}
    return {path: when for path, when in found.items() if when is not None}


def _all_expired(to: "Destination") -> bool:
    has_agent = to.agent != "none" and bool(to.agent or os.environ.get("SSH_AUTH_SOCK"))
    expiries = _expiries(to).values()
    return bool(expiries) and not has_agent and max(expiries) <= time.time()


def _certificates(to: "Destination") -> str:
    expiries = _expiries(to)
    if not expiries:
        return "no certificate was found beside the keys, nor by CertificateFile in ssh_config"
    path, when = max(expiries.items(), key=lambda item: item[1])
    if when == float("inf"):
        return f"the certificate {path} does not expire"
    moment = datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"the certificate {path} {'has expired' if when <= time.time() else 'is valid'}: {moment}"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _renewal(site: str, login: Login) -> str:
    hours = login.certificate_hours
    lifetime = f", which is valid for {counted(hours, 'hour')}" if hours else ""
    how = f"run `{login.certificate_command}`" if login.certificate_command else "get a new one from the site"
    return f"{site} accepts an SSH certificate{lifetime}: {how}, then try again."


_NEEDED = {"password": "your password", "otp": "a one-time code"}


def _without_keys(site: str, login: Login, to: "Destination", *, interactive: bool) -> str:
    needed = " and ".join(_NEEDED[method] for method in login.methods if method in _NEEDED)
    again = "Check the user (--host USER@HOST) and try again." if interactive else "Run this in a terminal."
    return (
        f"{site} asks for {needed}, and accepts no key. {again} While a connection of `{to.ssh}` is open "
        "that ssh_config shares (ControlMaster and ControlPath), no command needs another login."
    )


def _unattended(login: Login, to: "Destination") -> str:
    host = login.automation_host
    if host is None or to.alias.lower() == host.lower():
        return ""
    return f" For logins without a terminal the site has --host {host}, which needs a restricted key."


def _others(site: str, login: Login, to: "Destination") -> str:
    own = (to.alias.lower(), to.host)
    hosts = [host for host in (login.host, *login.other_hosts) if host and host.lower() not in own]
    if not hosts:
        return ""
    return f" Other login hosts of {site}: {', '.join(hosts)}; name one with --host."


def _note(login: Login) -> str:
    return f" {login.note}" if login.note else ""
