"""Verify host keys. A key that is unknown, or that known_hosts or ssh_config revokes, is refused.

paramiko's own check supports one key of a type for a host, no pattern and no @revoked; the login nodes of
a cluster often share one name and have a key each.
"""

from collections.abc import Iterable
from pathlib import Path

import paramiko
from msgspec import Struct

from slurmgen.errors import ConfigError, HostKeyError
from slurmgen.files import NotPlainFile
from slurmgen.remote.ssh.destination import Destination
from slurmgen.remote.ssh.known_hosts import AUTHORITY, REVOKED, Entry, entries
from slurmgen.remote.ssh.revoked_keys import is_revoked

_RSA_ALGORITHMS = ("rsa-sha2-512", "rsa-sha2-256")


class Known(Struct, frozen=True):
    """The keys that known_hosts has for one host."""

    trusted: tuple[paramiko.PKey, ...] = ()
    revoked: tuple[paramiko.PKey, ...] = ()
    has_authority: bool = False
    "Whether a certificate authority is trusted for the host."
    without_port: tuple[paramiko.PKey, ...] = ()
    "Keys of the name without the port, if there is none with it; they are accepted too, as in OpenSSH."

    @property
    def accepted(self) -> tuple[paramiko.PKey, ...]:
        """The keys that the host may show."""
        return self.trusted or self.without_port

    @property
    def by_authority_alone(self) -> bool:
        """Whether only a certificate can identify the host."""
        return self.has_authority and not self.accepted

    def algorithms(self, available: Iterable[str]) -> list[str]:
        """The host key algorithms to request: those of the known keys first."""
        names = [name for key in self.accepted for name in _algorithms(key)]
        return sorted(available, key=lambda name: name not in names)


def known(to: Destination) -> Known:
    """The keys in the known_hosts files of a destination.

    Raises:
        ConfigError: a file cannot be read, or ssh_config has a KnownHostsCommand, which only OpenSSH runs.
    """
    if to.known_hosts_command:
        raise ConfigError(
            f"KnownHostsCommand of {to.alias} in ssh_config is run by OpenSSH only",
            "Use --ssh-client openssh.",
        )
    with_port = _known(_entries(to.known_hosts, to.host_key_name))
    if with_port.trusted or to.host_key_name != f"[{to.host}]:{to.port}":
        return with_port
    without = _known(_entries(to.known_hosts, to.host))
    return Known((), with_port.revoked + without.revoked, with_port.has_authority, without.trusted)


def check(key: paramiko.PKey, keys: Known, to: Destination) -> None:
    """Refuse a host unless its key is known and not revoked.

    Raises:
        HostKeyError: the key is unknown, changed, revoked or too short; the message has its fingerprint.
        ConfigError: RevokedHostKeys cannot be read.
    """
    if key in keys.revoked or is_revoked(key, to.revoked_host_keys):
        raise HostKeyError(
            f"the host key of {_title(to)} is revoked: {_describe(key)}", "Ask the site's staff."
        )
    if key.get_name() == "ssh-rsa" and key.get_bits() < to.required_rsa_size:
        raise HostKeyError(
            f"the host key of {_title(to)} has {key.get_bits()} bits: {_describe(key)}",
            f"ssh_config's RequiredRSASize is {to.required_rsa_size}. Ask the site's staff for a longer key.",
        )
    if key in keys.accepted:
        return
    if keys.trusted:
        raise _changed(key, keys, to)
    if keys.by_authority_alone:
        raise HostKeyError(
            f"known_hosts has an authority for {_title(to)}, but not its own key: {_describe(key)}",
            "Only OpenSSH supports host certificates: use --ssh-client openssh.",
        )
    file = to.known_hosts[0] if to.known_hosts else "known_hosts"
    raise HostKeyError(
        f"the host key of {_title(to)} is not known: {_describe(key)}",
        "Compare this fingerprint with the one your site publishes. If it is the same, "
        f"run `{to.ssh}` once and answer yes, or add this line to {file}:\n"
        f"{to.host_key_name} {key.get_name()} {key.get_base64()}",
    )


def _changed(key: paramiko.PKey, keys: Known, to: Destination) -> HostKeyError:
    expected = ", ".join(_describe(one) for one in keys.trusted)
    return HostKeyError(
        f"THE HOST KEY OF {_title(to)} HAS CHANGED: it is {_describe(key)}, and known_hosts has {expected}. "
        "This may be a man-in-the-middle attack; nothing was sent",
        "Ask the site's staff whether they changed it. Only if they did: "
        f"ssh-keygen -R '{to.host_key_name}' -f {to.known_hosts[0]}",
    )


def _title(to: Destination) -> str:
    return f"{to.alias} ({to.host} port {to.port})"


def _describe(key: paramiko.PKey) -> str:
    return f"{key.get_name()} {key.fingerprint}"


def _algorithms(key: paramiko.PKey) -> tuple[str, ...]:
    return _RSA_ALGORITHMS if key.get_name() == "ssh-rsa" else (key.get_name(),)


def _known(found: list[Entry]) -> Known:
    return Known(
        tuple(entry.key for entry in found if not entry.marker),
        tuple(entry.key for entry in found if entry.marker == REVOKED),
        any(entry.marker == AUTHORITY for entry in found),
    )


def _entries(paths: Iterable[Path], host: str) -> list[Entry]:
    found: list[Entry] = []
    for path in paths:
        try:
            found += entries(path, host)
        except NotPlainFile as error:
            raise ConfigError(f"cannot read {path}: {error}", "Name another file in ssh_config.") from None
    return found
