"""Where `ssh HOST` would go, told by ssh itself where it is installed."""

import getpass
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from slurmgen.errors import ConfigError, RequestError

_USER_KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
_SYSTEM_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
_DEFAULT_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
# A host name ends up in a ProxyCommand, which is a shell's; OpenSSH refuses the same.
_HOST = re.compile(r"[\w:\[\]%][\w.:\[\]%-]*")
_USER = re.compile(r"[^-\s\x00-\x1f;&<>|`$'\"\\(){}][^\s\x00-\x1f;&<>|`$'\"\\(){}]*")

Said = Mapping[str, Sequence[str]]
"What the files say of a host: keywords in small letters, with their values."


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
    try:
        said = _said(alias, user, Path(config_file).expanduser().absolute() if config_file else None)
        _refuse_jump(alias, said)
        return _destination(alias, user, said)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot read ssh_config: {error}", "Mend it, or give another with --ssh-config."
        ) from None


def _said(alias: str, user: str, config_file: Path | None) -> Said:
    if program := shutil.which("ssh"):
        from slurmgen.remote.config_of_ssh import said

        return said(program, alias, user, config_file)
    from slurmgen.remote.config_of_paramiko import said as read

    return read(alias, config_file)


def _destination(alias: str, user: str, said: Said) -> Destination:
    def one(keyword: str, otherwise: str) -> str:
        return said.get(keyword, [otherwise])[0]

    host, port = one("hostname", alias).lower(), int(one("port", "22"))
    known_hosts = [
        *said.get("userknownhostsfile", _USER_KNOWN_HOSTS),
        *said.get("globalknownhostsfile", _SYSTEM_KNOWN_HOSTS),
    ]
    return Destination(
        alias=alias,
        host=host,
        port=port,
        user=user or one("user", "") or getpass.getuser(),
        identity_files=_paths(said.get("identityfile", _DEFAULT_KEYS)),
        identities_only=one("identitiesonly", "no") == "yes",
        known_hosts=_paths(known_hosts),
        host_key_name=one("hostkeyalias", "") or (host if port == 22 else f"[{host}]:{port}"),
        proxy_command=one("proxycommand", "") or None,
    )


def _paths(texts: Sequence[str]) -> tuple[Path, ...]:
    return tuple(Path(text).expanduser() for text in texts if text != "none")


def _refuse_jump(alias: str, said: Said) -> None:
    jump = said.get("proxyjump", ["none"])[0]
    if jump != "none" and not said.get("proxycommand"):
        raise ConfigError(
            f"{alias} is reached through ProxyJump {jump}, which slurmgen does not support yet",
            f"In ssh_config, write `ProxyCommand ssh -W %h:%p {jump}` instead; it does the same.",
        )
