"""Is this the host we mean? known_hosts, read strictly: an unknown key is refused.

paramiko's own check takes one key of a type for a host, no pattern and no @revoked; the
login nodes of a cluster often share one name and have a key each.
"""

import contextlib
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import paramiko
from msgspec import Struct
from paramiko.hostkeys import HostKeyEntry, HostKeys, InvalidHostKey

from slurmgen.errors import HostKeyError
from slurmgen.remote.ssh_config import Destination

_AUTHORITY = "@cert-authority"
_RSA_ALGORITHMS = ("rsa-sha2-512", "rsa-sha2-256")


class Known(Struct, frozen=True):
    """The keys that known_hosts has for one host."""

    trusted: tuple[paramiko.PKey, ...] = ()
    revoked: tuple[paramiko.PKey, ...] = ()
    has_authority: bool = False
    "Whether a certificate authority is trusted to vouch for the host."

    @property
    def by_authority_alone(self) -> bool:
        """Whether only a certificate can say who the host is."""
        return self.has_authority and not self.trusted

    def algorithms(self, available: Iterable[str]) -> list[str]:
        """The host key algorithms to ask for: those of keys we know first."""
        names = [name for key in self.trusted for name in _algorithms(key)]
        return sorted(available, key=lambda name: name not in names)


def known(to: Destination) -> Known:
    """What the destination's known_hosts files say of it."""
    lines = [line for path in to.known_hosts for line in _lines(path)]
    trusted = [line for line in lines if not line.startswith("@")]
    revoked = [line.removeprefix("@revoked").strip() for line in lines if line.startswith("@revoked")]
    authorities = [line.removeprefix(_AUTHORITY).strip() for line in lines if line.startswith(_AUTHORITY)]
    return Known(
        tuple(_keys(trusted, to.host_key_name)),
        tuple(_keys(revoked, to.host_key_name)),
        any(_keys(authorities, to.host_key_name)),
    )


def check(key: paramiko.PKey, keys: Known, to: Destination) -> None:
    """Let a host pass only if its key is known and not revoked.

    Raises:
        HostKeyError: the key is unknown, changed or revoked; the message has its fingerprint.
    """
    if key in keys.revoked:
        raise HostKeyError(
            f"the host key of {_title(to)} is revoked: {_describe(key)}", "Ask the site's staff."
        )
    if key in keys.trusted:
        return
    if keys.trusted:
        raise _changed(key, keys, to)
    if keys.by_authority_alone:
        raise HostKeyError(
            f"known_hosts has an authority for {_title(to)}, but not its own key: {_describe(key)}",
            "Only OpenSSH reads the certificates of hosts: say --ssh-client openssh.",
        )
    file = to.known_hosts[0] if to.known_hosts else "known_hosts"
    raise HostKeyError(
        f"the host key of {_title(to)} is not known: {_describe(key)}",
        "Compare this fingerprint with the one your site publishes. If it is the same, "
        f"run `{to.ssh}` once and say yes, or add this line to {file}:\n"
        f"{to.host_key_name} {key.get_name()} {key.get_base64()}",
    )


def _changed(key: paramiko.PKey, keys: Known, to: Destination) -> HostKeyError:
    expected = ", ".join(_describe(one) for one in keys.trusted)
    return HostKeyError(
        f"THE HOST KEY OF {_title(to)} HAS CHANGED: it shows {_describe(key)}, known is {expected}. "
        "Somebody may be between you and the host; nothing was sent",
        "Ask the site's staff whether they changed it. Only if they did: "
        f"ssh-keygen -R '{to.host_key_name}' -f {to.known_hosts[0]}",
    )


def _title(to: Destination) -> str:
    return f"{to.alias} ({to.host} port {to.port})"


def _describe(key: paramiko.PKey) -> str:
    return f"{key.get_name()} {key.fingerprint}"


def _algorithms(key: paramiko.PKey) -> tuple[str, ...]:
    return _RSA_ALGORITHMS if key.get_name() == "ssh-rsa" else (key.get_name(),)


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        return []
    lines = path.read_text(errors="replace").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def _keys(lines: Iterable[str], name: str) -> Iterator[paramiko.PKey]:
    """The keys of the lines that are for a name; a line that cannot be read is for nobody."""
    for line in lines:
        with contextlib.suppress(paramiko.SSHException, InvalidHostKey, ValueError, AssertionError):
            entry = HostKeyEntry.from_line(" ".join(line.split()))
            if entry and entry.key and entry.hostnames and _is_for(entry.hostnames, name):
                yield entry.key


def _is_for(patterns: list[str], name: str) -> bool:
    if any(_matches(pattern[1:], name) for pattern in patterns if pattern.startswith("!")):
        return False
    return any(_matches(pattern, name) for pattern in patterns)


def _matches(pattern: str, name: str) -> bool:
    if pattern.startswith("|1|"):
        return HostKeys.hash_host(name, pattern) == pattern
    # `[host]:port` is literal, while fnmatch would take it for a set of characters.
    return pattern == name or ("[" not in pattern and fnmatchcase(name, pattern))
