"""Where `ssh HOST` would go: ssh_config as paramiko reads it, with Include, which it does not."""

import getpass
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from slurmgen.errors import ConfigError, RequestError

if TYPE_CHECKING:
    import paramiko

SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")
_USER_KNOWN_HOSTS = "~/.ssh/known_hosts ~/.ssh/known_hosts2"
_SYSTEM_KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"
_DEFAULT_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
# A host name ends up in a ProxyCommand, which is a shell's; OpenSSH refuses the same.
_HOST = re.compile(r"[\w:\[\]%][\w.:\[\]%-]*")
_USER = re.compile(r"[^-\s\x00-\x1f;&<>|`$'\"\\(){}][^\s\x00-\x1f;&<>|`$'\"\\(){}]*")


class Destination(Struct, frozen=True, kw_only=True):
    """One host and all that is needed to log in there, except secrets."""

    alias: str
    "What the person called it."
    host: str
    port: int
    user: str
    identity_files: tuple[Path, ...]
    identities_only: bool
    "Offer no other keys of the agent than those of identity_files."
    known_hosts: tuple[Path, ...]
    host_key_name: str
    "The name that the host has in known_hosts."
    proxy_command: str | None = None


def destination(name: str, config_file: str | None = None) -> Destination:
    """Where `[USER@]HOST` leads, by `config_file` or else by your and the system's ssh_config.

    Raises:
        RequestError: the name could never be a host's.
        ConfigError: the file is wrong, or says what is not supported.
    """
    user, _, alias = name.rpartition("@")
    if not _HOST.fullmatch(alias) or (user and not _USER.fullmatch(user)):
        raise RequestError(f"{name!r} is no host name", "Give --host as HOST or USER@HOST.")
    # OpenSSH ignores the system's file too when it is given one.
    files = [Path(config_file)] if config_file else [Path("~/.ssh/config"), SYSTEM_CONFIG]
    said = _lookup(alias, [path.expanduser() for path in files], required=bool(config_file))
    _refuse_jump(alias, said)
    try:
        return _destination(alias, user, said)
    except ValueError as error:
        raise _unreadable(error) from None


def _destination(alias: str, user: str, said: "paramiko.SSHConfigDict") -> Destination:
    host, port = said["hostname"].lower(), int(said.get("port", 22))
    keys = [path for path in said.get("identityfile", _DEFAULT_KEYS) if path != "none"]
    names = " ".join(
        [
            said.get("userknownhostsfile", _USER_KNOWN_HOSTS),
            said.get("globalknownhostsfile", _SYSTEM_KNOWN_HOSTS),
        ]
    )
    return Destination(
        alias=alias,
        host=host,
        port=port,
        user=user or said.get("user") or getpass.getuser(),
        identity_files=tuple(Path(path).expanduser() for path in keys),
        identities_only=said.get("identitiesonly", "no") == "yes",
        known_hosts=tuple(Path(path).expanduser() for path in shlex.split(names)),
        host_key_name=said.get("hostkeyalias") or (host if port == 22 else f"[{host}]:{port}"),
        proxy_command=said.get("proxycommand"),
    )


def _lookup(alias: str, files: Sequence[Path], *, required: bool) -> "paramiko.SSHConfigDict":
    import paramiko

    config = paramiko.SSHConfig()
    try:
        for path in files:
            if required or path.exists():
                config.parse(iter([*_lines(path), "Host *"]))
        return config.lookup(alias)
    except (OSError, ValueError, paramiko.ConfigParseError) as error:
        raise _unreadable(error) from None


def _unreadable(error: Exception) -> ConfigError:
    return ConfigError(f"cannot read ssh_config: {error}", "Mend it, or give another with --ssh-config.")


def _lines(path: Path, depth: int = 0) -> Iterator[str]:
    """The lines of a file with those it includes; after an Include the block around it goes on."""
    block = "Host *"
    for line in path.read_text().splitlines():
        words = line.replace("=", " ", 1).split(None, 1)
        keyword = words[0].lower() if words else ""
        if keyword in {"host", "match"}:
            block = line
        if keyword != "include" or depth > 16:
            yield line
            continue
        for included in _included(words[1]):
            yield from _lines(included, depth + 1)
        yield block


def _included(patterns: str) -> Iterator[Path]:
    """The files that an Include names; relative ones are in ~/.ssh."""
    home = Path("~/.ssh").expanduser()
    for pattern in shlex.split(patterns):
        whole = home / Path(pattern).expanduser()
        yield from sorted(Path(whole.anchor).glob(str(whole.relative_to(whole.anchor))))


def _refuse_jump(alias: str, said: "paramiko.SSHConfigDict") -> None:
    jump = said.get("proxyjump", "none")
    if jump != "none" and not said.get("proxycommand"):
        raise ConfigError(
            f"{alias} is reached through ProxyJump {jump}, which slurmgen does not support yet",
            f"In ssh_config, write `ProxyCommand ssh -W %h:%p {jump}` instead; it does the same.",
        )
