"""The host that `ssh HOST` connects to, and its options; ssh itself resolves them if it is installed."""

import getpass
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import structs

from slurmgen.errors import ConfigError, RequestError
from slurmgen.files import read_bytes
from slurmgen.remote.ssh import algorithms
from slurmgen.remote.ssh.destination import METHODS, Destination, HostSpec, Sharing

_USER_KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
_SYSTEM_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
_DEFAULT_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
# A host name is inserted into a ProxyCommand, which a shell runs; OpenSSH refuses the same names.
_HOST = re.compile(r"[\w:\[\]%][\w.:\[\]%-]*")
_USER = re.compile(r"[^-\s\x00-\x1f;&<>|`$'\"\\(){}][^\s\x00-\x1f;&<>|`$'\"\\(){}]*")

_SWITCHES = {
    "publickey": "pubkeyauthentication",
    "keyboard-interactive": "kbdinteractiveauthentication",
    "password": "passwordauthentication",
}

# `[USER@]HOST[:PORT]`, as ProxyJump has it; an IPv6 address stands in brackets.
_HOST_SPEC = re.compile(r"(?:ssh://)?(?:(.*)@)?(?:\[([^\[\]]+)\]|([^:\[\]]+))(?::(\d+))?/?")
_MAX_JUMPS = 8
_PROXY_SSH = re.compile(r"^\s*(?:\S*/)?ssh(?=\s)")

Options = Mapping[str, Sequence[str]]
"The options of ssh_config for a host: keywords in lower case, with their values."


def destination(name: str, config_file: str | None = None, jump: str | None = None) -> Destination:
    """The destination of `[USER@]HOST`, by `config_file` or else by the user's and the system's ssh_config.

    Args:
        name: the host as given.
        config_file: the ssh_config that is read instead.
        jump: the value of ProxyJump if ssh_config has neither ProxyJump nor ProxyCommand for the host.

    Raises:
        RequestError: the name is not valid.
        ConfigError: the file is wrong, or its ProxyJump is circular.
    """
    user, _, alias = name.rpartition("@")
    if not _HOST.fullmatch(alias) or (user and not _USER.fullmatch(user)):
        raise RequestError(f"{name!r} is not a host name", "Give --host as HOST or USER@HOST.")
    try:
        file = Path(config_file).expanduser().absolute() if config_file else None
        _check_readable(file)
        return _resolved(HostSpec(alias, user), file, (), jump)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot read ssh_config: {error}", "Correct it, or name another file with --ssh-config."
        ) from None


def _check_readable(config_file: Path | None) -> None:
    """Refuse a file that ssh would block on, such as a FIFO."""
    if config_file:
        read_bytes(config_file)
    else:
        with suppress(FileNotFoundError):
            read_bytes(Path("~/.ssh/config").expanduser())


def _resolved(
    spec: HostSpec, config_file: Path | None, behind: tuple[str, ...], jump: str | None = None
) -> Destination:
    """A host with its jump hosts; `behind` are the hosts that are reached through it."""
    if str(spec) in behind or len(behind) > _MAX_JUMPS:
        raise ValueError(f"its ProxyJump is circular: {' -> '.join((*behind, str(spec)))}")
    options = _read_options(spec, config_file)
    added = jump if jump and _leaves_jump_open(spec, config_file, options, jump) else ""
    to = _destination(spec, config_file, options)
    hosts = _jump(added or _proxy_jump(options), config_file, (*behind, str(spec)))
    return structs.replace(to, jump=hosts, added_jump=added)


def _leaves_jump_open(spec: HostSpec, file: Path | None, options: Options, jump: str) -> bool:
    """Whether ssh_config does not say how a host is reached."""
    if {"proxyjump", "proxycommand"} & options.keys():
        return False
    if program := shutil.which("ssh"):
        from slurmgen.remote.ssh import config_openssh

        return config_openssh.leaves_jump_open(program, spec.alias, spec.user, spec.port, file, jump)
    return True


def _jump(words: str, config_file: Path | None, behind: tuple[str, ...]) -> Destination | None:
    """The last host of ProxyJump. Each is reached through the one before it."""
    jump: Destination | None = None
    for spec in map(_parsed, words.split(",") if words else ()):
        if jump is None:
            jump = _resolved(spec, config_file, behind)
        else:  # a ProxyJump of its own is ignored, as in OpenSSH
            to = _destination(spec, config_file, _read_options(spec, config_file))
            jump = structs.replace(to, jump=jump)
    return jump


def _parsed(word: str) -> HostSpec:
    match = _HOST_SPEC.fullmatch(word.strip())
    user, address, name, port = match.groups(default="") if match else ("", "", "", "")
    spec = HostSpec(address or name, user, port)
    if not _HOST.fullmatch(spec.alias) or (user and not _USER.fullmatch(user)):
        raise ValueError(f"ProxyJump {word!r} is not [USER@]HOST[:PORT]")
    return spec


def _proxy_jump(options: Options) -> str:
    """The value of ProxyJump; empty if a ProxyCommand precedes it."""
    first = next((word for word in options if word in {"proxyjump", "proxycommand"}), "")
    words = options[first][0] if first == "proxyjump" else ""
    return "" if words.lower() == "none" else words


def _read_options(spec: HostSpec, file: Path | None) -> Options:
    if program := shutil.which("ssh"):
        from slurmgen.remote.ssh import config_openssh

        return config_openssh.read_options(program, spec.alias, spec.user, spec.port, file)
    from slurmgen.remote.ssh import config_paramiko

    return {**config_paramiko.read_options(spec.alias, file), **({"port": [spec.port]} if spec.port else {})}


def _destination(spec: HostSpec, config_file: Path | None, options: Options) -> Destination:
    def first(keyword: str, default: str) -> str:
        return options.get(keyword, [default])[0]

    host, port = first("hostname", spec.alias).lower(), int(first("port", "22"))
    if not 0 < port < 65536:
        raise ValueError(f"{port} is not a port")
    known_hosts = [
        *options.get("userknownhostsfile", _USER_KNOWN_HOSTS),
        *options.get("globalknownhostsfile", _SYSTEM_KNOWN_HOSTS),
    ]
    return Destination(
        spec=spec,
        host=host,
        port=port,
        user=spec.user or first("user", "") or getpass.getuser(),
        identity_files=_paths(options.get("identityfile", _DEFAULT_KEYS)),
        certificate_files=_paths(options.get("certificatefile", ())),
        identities_only=first("identitiesonly", "no") == "yes",
        agent=_agent(first("identityagent", "")),
        known_hosts=_paths(known_hosts),
        host_key_name=first("hostkeyalias", "") or (host if port == 22 else f"[{host}]:{port}"),
        known_hosts_command=_some(first("knownhostscommand", "none")),
        revoked_host_keys=_paths(options.get("revokedhostkeys", ())),
        required_rsa_size=int(first("requiredrsasize", "1024")),
        algorithms={keyword: options[keyword][0] for keyword in algorithms.KEYWORDS if keyword in options},
        methods=_methods(first),
        proxy_command=None if _proxy_jump(options) else _strict(first("proxycommand", "")) or None,
        sharing=_sharing(first),
        config_file=config_file,
    )


def _some(text: str) -> str | None:
    return None if text.lower() == "none" else text


def _methods(first: Callable[[str, str], str]) -> tuple[str, ...]:
    preferred = first("preferredauthentications", ",".join(METHODS)).split(",")
    return tuple(
        name for name in preferred if name in METHODS and first(_SWITCHES[name], "yes").lower() not in _NO
    )


def _strict(proxy_command: str) -> str:
    """A ProxyCommand in which ssh, if that is what it runs, accepts no unknown host key.

    >>> _strict("ssh -W h:22 gate")
    'ssh -oStrictHostKeyChecking=yes -W h:22 gate'
    """
    return _PROXY_SSH.sub(r"\g<0> -oStrictHostKeyChecking=yes", proxy_command, count=1)


def _paths(texts: Sequence[str]) -> tuple[Path, ...]:
    return tuple(Path(text).expanduser() for text in texts if text != "none")


def _agent(value: str) -> str | None:
    """The socket that IdentityAgent names, itself or by an environment variable."""
    if value in {"", "SSH_AUTH_SOCK"}:
        return None
    path = os.environ.get(value[1:], "none") if value.startswith("$") else value
    return path if path == "none" else str(Path(path).expanduser())


def _sharing(first: Callable[[str, str], str]) -> Sharing | None:
    path = first("controlpath", "none")
    if path == "none":
        return None
    return Sharing(path, first("controlmaster", "no") not in _NO and first("controlpersist", "no") not in _NO)


_NO = {"no", "false"}
