"""What a profile adds to a login: its jump host, and advice when the login fails.

Only the user's own profiles and the bundled ones count, not those of a project, which may be untrusted.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from slurmgen.errors import AuthenticationFailed, ConfigError, ConnectionFailed
from slurmgen.sites.model import Login
from slurmgen.text import counted

if TYPE_CHECKING:
    from slurmgen.remote.ssh.destination import Destination


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
    """The names of the hosts in a value of ProxyJump: `[USER@]HOST[:PORT],...`."""
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
    """The certificates of the user for a host and its jump hosts, with the time when each expires."""
    from slurmgen.remote.ssh import certificates

    files = [path for host in to.chain for path in host.certificate_files]
    files += [certificates.beside(path) for host in to.chain for path in host.identity_files]
    found = {path: certificates.expiry(path) for path in files}
    return {path: when for path, when in found.items() if when is not None}


def _all_expired(to: "Destination") -> bool:
    has_agent = to.agent != "none" and bool(to.agent or os.environ.get("SSH_AUTH_SOCK"))
    expiries = _expiries(to).values()
    return bool(expiries) and not has_agent and max(expiries) <= time.time()


def _certificates(to: "Destination") -> str:
    """The state of the user's certificates."""
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
    """The advice for a site that accepts no keys."""
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
