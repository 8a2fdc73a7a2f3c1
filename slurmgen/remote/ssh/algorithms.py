"""The algorithms of a connection: those that ssh_config allows, of those that paramiko has.

`ssh -G` resolves the lists, OpenSSH's defaults included. Without ssh, they are as ssh_config has them.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from msgspec import Struct

from slurmgen.errors import ConfigError

if TYPE_CHECKING:
    import paramiko


class _Option(Struct, frozen=True):
    name: str
    "In ssh_config."
    attribute: str
    "Of paramiko's SecurityOptions."
    default: str
    "What OpenSSH 10 allows of paramiko's algorithms; patterns."


_OPTIONS = (
    _Option("Ciphers", "ciphers", "aes*-ctr,aes*-gcm@openssh.com"),
    _Option("HostKeyAlgorithms", "key_types", "ssh-ed25519,ecdsa-sha2-*,rsa-sha2-*"),
    _Option("KexAlgorithms", "kex", "mlkem*,curve25519-*,ecdh-*,diffie-hellman-*-sha256,*-sha512"),
    _Option("MACs", "digests", "hmac-sha2-*,hmac-sha1,hmac-sha1-etm@openssh.com"),
)
KEYWORDS = tuple(option.name.lower() for option in _OPTIONS)
_STANDARD_NAME = {"curve25519-sha256@libssh.org": "curve25519-sha256"}


def restrict(connection: "paramiko.Transport", lists: Mapping[str, str], alias: str) -> None:
    """Restrict a connection to what ssh_config allows; `lists` are its values by keyword in lower case.

    Raises:
        ConfigError: paramiko has none of the algorithms of an option.
    """
    security = connection.get_security_options()
    for option in _OPTIONS:
        value = lists.get(option.name.lower(), option.default)
        chosen = allowed(value, getattr(security, option.attribute), option.default)
        if not chosen:
            raise ConfigError(
                f"{option.name} of {alias} in ssh_config allows none that paramiko has: {value}",
                "Use --ssh-client openssh.",
            )
        setattr(security, option.attribute, chosen)


def allowed(value: str, available: Sequence[str], default: str) -> tuple[str, ...]:
    """The available algorithms that an option allows, in its order.

    >>> allowed("^3des-cbc,a", ["aes-ctr", "3des-cbc"], "aes-*")
    ('3des-cbc', 'aes-ctr')
    """
    sign, patterns = (value[0], value[1:]) if value[:1] in {"+", "-", "^"} else ("", value)
    named, usual = _matching(patterns, available), _matching(default, available)
    if sign == "-":
        return tuple(name for name in usual if name not in named)
    both = {"": named, "+": usual + named, "^": named + usual}[sign]
    return tuple(dict.fromkeys(both))


def _matching(patterns: str, available: Sequence[str]) -> list[str]:
    """The names that match a list of patterns, in the list's order."""
    return [name for pattern in patterns.split(",") for name in available if _is(pattern.strip(), name)]


def _is(pattern: str, name: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(_STANDARD_NAME.get(name, name), pattern)
