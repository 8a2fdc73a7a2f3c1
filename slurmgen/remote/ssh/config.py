"""Where `ssh HOST` would go, told by ssh itself where it is installed."""

import getpass
import os
import re
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, structs

from slurmgen.errors import ConfigError, RequestError
from slurmgen.files import read_bytes
from slurmgen.remote.ssh import algorithms

_USER_KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
_SYSTEM_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
_DEFAULT_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
# A host name ends up in a ProxyCommand, which is a shell's; OpenSSH refuses the same.
_HOST = re.compile(r"[\w:\[\]%][\w.:\[\]%-]*")
_USER = re.compile(r"[^-\s\x00-\x1f;&<>|`$'\"\\(){}][^\s\x00-\x1f;&<>|`$'\"\\(){}]*")

METHODS = ("publickey", "keyboard-interactive", "password")
"The ways to log in that slurmgen has, in OpenSSH's order."
_SWITCHES = {
    "publickey": "pubkeyauthentication",
    "keyboard-interactive": "kbdinteractiveauthentication",
    "password": "passwordauthentication",
}

# `[USER@]HOST[:PORT]`, as ProxyJump has it; an IPv6 address stands in brackets.
_HOP = re.compile(r"(?:ssh://)?(?:(.*)@)?(?:\[([^\[\]]+)\]|([^:\[\]]+))(?::(\d+))?/?")
_MOST_HOPS = 8
_PROXY_SSH = re.compile(r"^\s*(?:\S*/)?ssh(?=\s)")

Said = Mapping[str, Sequence[str]]
"What the files say of a host: keywords in small letters, with their values."


class Hop(Struct, frozen=True):
    """A host as a person names it: in --host, or in ProxyJump."""

    alias: str
    user: str = ""
    port: str = ""

    @property
    def options(self) -> list[str]:
        """ssh's options for the user and port, where they are given."""
        return [*(["-l", self.user] if self.user else []), *(["-p", self.port] if self.port else [])]

    def __str__(self) -> str:
        return self.alias + (f":{self.port}" if self.port else "")


class Sharing(Struct, frozen=True):
    """Whether OpenSSH shares one login among several commands there, and how."""

    path: str
    "ControlPath."
    starts: bool
    "Whether `ssh HOST` would leave a shared connection behind for the next one."


class Destination(Struct, frozen=True, kw_only=True):
    """One host and all that is needed to log in there, except secrets."""

    asked: Hop
    "The name, user and port as given."
    host: str
    port: int
    user: str
    identity_files: tuple[Path, ...]
    certificate_files: tuple[Path, ...] = ()
    identities_only: bool
    "Offer no other keys of the agent than those of identity_files."
    agent: str | None = None
    "The agent's socket, or none; None for the usual one."
    known_hosts: tuple[Path, ...]
    host_key_name: str
    "The name that the host has in known_hosts."
    known_hosts_command: str | None = None
    revoked_host_keys: tuple[Path, ...] = ()
    required_rsa_size: int = 1024
    "Bits that an RSA key of the host must have at least."
    algorithms: dict[str, str] = {}
    "Ciphers and the like, by keyword in small letters."
    methods: tuple[str, ...] = METHODS
    "The ways to log in that may be tried."
    proxy_command: str | None = None
    jump: "Destination | None" = None
    "The host through which this one is reached."
    sharing: Sharing | None = None
    config_file: Path | None = None

    @property
    def alias(self) -> str:
        """The name as given."""
        return self.asked.alias

    @property
    def hops(self) -> tuple["Destination", ...]:
        """The hosts on the way, the nearest first and this one last."""
        return (*(self.jump.hops if self.jump else ()), self)

    @property
    def ssh(self) -> str:
        """What a person types to go there by hand."""
        file = ["-F", str(self.config_file)] if self.config_file else []
        return shlex.join(["ssh", *file, *self.asked.options, self.alias])


def destination(name: str, config_file: str | None = None) -> Destination:
    """Where `[USER@]HOST` leads, by `config_file` or else by your and the system's ssh_config.

    Raises:
        RequestError: the name could never be a host's.
        ConfigError: the file is wrong, or its ProxyJump leads in a circle.
    """
    user, _, alias = name.rpartition("@")
    if not _HOST.fullmatch(alias) or (user and not _USER.fullmatch(user)):
        raise RequestError(f"{name!r} is no host name", "Give --host as HOST or USER@HOST.")
    try:
        file = Path(config_file).expanduser().absolute() if config_file else None
        _check_readable(file)
        return _resolved(Hop(alias, user), file, ())
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot read ssh_config: {error}", "Mend it, or give another with --ssh-config."
        ) from None


def _check_readable(config_file: Path | None) -> None:
    """Refuse what ssh would wait for, such as a FIFO."""
    if config_file:
        read_bytes(config_file)
    else:
        with suppress(FileNotFoundError):
            read_bytes(Path("~/.ssh/config").expanduser())


def _resolved(hop: Hop, config_file: Path | None, way: tuple[str, ...]) -> Destination:
    """A host with the hosts before it; `way` leads from the far end to here."""
    if str(hop) in way or len(way) > _MOST_HOPS:
        raise ValueError(f"its ProxyJump leads in a circle: {' -> '.join((*way, str(hop)))}")
    said = _said(hop, config_file)
    to = _destination(hop, config_file, said)
    return structs.replace(to, jump=_jump(_proxy_jump(said), config_file, (*way, str(hop))))


def _jump(words: str, config_file: Path | None, way: tuple[str, ...]) -> Destination | None:
    """The last host of ProxyJump. Each is reached through the one before it, the first as it says itself."""
    jump: Destination | None = None
    for hop in map(_hop, words.split(",") if words else ()):
        if jump is None:
            jump = _resolved(hop, config_file, way)
        else:  # what it says of a jump of its own does not count, as in OpenSSH
            to = _destination(hop, config_file, _said(hop, config_file))
            jump = structs.replace(to, jump=jump)
    return jump


def _hop(word: str) -> Hop:
    match = _HOP.fullmatch(word.strip())
    user, address, name, port = match.groups(default="") if match else ("", "", "", "")
    hop = Hop(address or name, user, port)
    if not _HOST.fullmatch(hop.alias) or (user and not _USER.fullmatch(user)):
        raise ValueError(f"ProxyJump {word!r} is not [USER@]HOST[:PORT]")
    return hop


def _proxy_jump(said: Said) -> str:
    """What ProxyJump says; nothing if a ProxyCommand came before it."""
    first = next((word for word in said if word in {"proxyjump", "proxycommand"}), "")
    words = said[first][0] if first == "proxyjump" else ""
    return "" if words.lower() == "none" else words


def _said(hop: Hop, file: Path | None) -> Said:
    if program := shutil.which("ssh"):
        from slurmgen.remote.ssh.config_openssh import said

        return said(program, hop.alias, hop.user, hop.port, file)
    from slurmgen.remote.ssh.config_paramiko import said as read

    return {**read(hop.alias, file), **({"port": [hop.port]} if hop.port else {})}


def _destination(hop: Hop, config_file: Path | None, said: Said) -> Destination:
    def one(keyword: str, otherwise: str) -> str:
        return said.get(keyword, [otherwise])[0]

    host, port = one("hostname", hop.alias).lower(), int(one("port", "22"))
    if not 0 < port < 65536:
        raise ValueError(f"{port} is not a port")
    known_hosts = [
        *said.get("userknownhostsfile", _USER_KNOWN_HOSTS),
        *said.get("globalknownhostsfile", _SYSTEM_KNOWN_HOSTS),
    ]
    return Destination(
        asked=hop,
        host=host,
        port=port,
        user=hop.user or one("user", "") or getpass.getuser(),
        identity_files=_paths(said.get("identityfile", _DEFAULT_KEYS)),
        certificate_files=_paths(said.get("certificatefile", ())),
        identities_only=one("identitiesonly", "no") == "yes",
        agent=_agent(one("identityagent", "")),
        known_hosts=_paths(known_hosts),
        host_key_name=one("hostkeyalias", "") or (host if port == 22 else f"[{host}]:{port}"),
        known_hosts_command=_some(one("knownhostscommand", "none")),
        revoked_host_keys=_paths(said.get("revokedhostkeys", ())),
        required_rsa_size=int(one("requiredrsasize", "1024")),
        algorithms={keyword: said[keyword][0] for keyword in algorithms.KEYWORDS if keyword in said},
        methods=_methods(one),
        proxy_command=None if _proxy_jump(said) else _strict(one("proxycommand", "")) or None,
        sharing=_sharing(one("controlpath", "none"), one("controlmaster", "no"), one("controlpersist", "no")),
        config_file=config_file,
    )


def _some(text: str) -> str | None:
    return None if text.lower() == "none" else text


def _methods(one: Callable[[str, str], str]) -> tuple[str, ...]:
    preferred = one("preferredauthentications", ",".join(METHODS)).split(",")
    return tuple(
        name for name in preferred if name in METHODS and one(_SWITCHES[name], "yes").lower() not in _NO
    )


def _strict(proxy_command: str) -> str:
    """A ProxyCommand in which ssh, if that is what it runs, accepts no unknown host key.

    >>> _strict("ssh -W h:22 gate")
    'ssh -oStrictHostKeyChecking=yes -W h:22 gate'
    """
    return _PROXY_SSH.sub(r"\g<0> -oStrictHostKeyChecking=yes", proxy_command, count=1)


def _paths(texts: Sequence[str]) -> tuple[Path, ...]:
    return tuple(Path(text).expanduser() for text in texts if text != "none")


def _agent(said: str) -> str | None:
    """The socket that IdentityAgent names; a word in capitals or with a dollar names its variable."""
    if said in {"", "SSH_AUTH_SOCK"}:
        return None
    path = os.environ.get(said[1:], "none") if said.startswith("$") else said
    return path if path == "none" else str(Path(path).expanduser())


def _sharing(path: str, master: str, persists: str) -> Sharing | None:
    if path == "none":
        return None
    return Sharing(path, master not in _NO and persists not in _NO)


_NO = {"no", "false"}
