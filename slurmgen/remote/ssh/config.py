"""The user's SSH configuration, as OpenSSH and Paramiko need it."""

import getpass
import itertools
import os
import pwd
import re
import shlex
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from slurmgen import files
from slurmgen.errors import ConfigError, RequestError
from slurmgen.files import read_bytes

if TYPE_CHECKING:
    import paramiko

METHODS = ("publickey", "keyboard-interactive", "password")
"The authentication methods of slurmgen, in OpenSSH's order."


class HostSpec(Struct, frozen=True):
    """A host as named in --host or in ProxyJump."""

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
    """How OpenSSH shares one login to a host among several commands."""

    path: str
    "ControlPath."
    starts: bool
    "Whether `ssh HOST` would keep a shared connection open for the next one."


class Destination(Struct, frozen=True, kw_only=True):
    """One host and all that a login to it needs, except secrets."""

    spec: HostSpec
    "The name, user and port as given."
    host: str
    port: int
    user: str
    identity_files: tuple[Path, ...]
    certificate_files: tuple[Path, ...] = ()
    identities_only: bool
    "Whether to offer only those keys of the agent that identity_files name."
    agent: str | None = None
    "The agent's socket, or none; None for the usual one."
    known_hosts: tuple[Path, ...]
    host_key_name: str
    "The name that the host has in known_hosts."
    known_hosts_command: str | None = None
    revoked_host_keys: tuple[Path, ...] = ()
    required_rsa_size: int = 1024
    "The least number of bits of an RSA host key."
    algorithms: dict[str, str] = {}
    "Ciphers and the like, by keyword in lower case."
    methods: tuple[str, ...] = METHODS
    "The authentication methods that may be tried."
    proxy_command: str | None = None
    jump: "Destination | None" = None
    "The host through which this one is reached."
    added_jump: str = ""
    "The value of ProxyJump, where it is not from ssh_config."
    sharing: Sharing | None = None
    config_file: Path | None = None

    @property
    def alias(self) -> str:
        """The name as given."""
        return self.spec.alias

    @property
    def names(self) -> dict[str, object]:
        """What the texts of errors name."""
        return {"alias": self.alias, "host": self.host, "port": self.port, "user": self.user, "ssh": self.ssh}

    @property
    def chain(self) -> tuple["Destination", ...]:
        """The jump hosts, the nearest first, then this host."""
        return (*(self.jump.chain if self.jump else ()), self)

    @property
    def ssh(self) -> str:
        """The command that connects to the host by hand."""
        file = ["-F", str(self.config_file)] if self.config_file else []
        jump = ["-J", self.added_jump] if self.added_jump else []
        return shlex.join(["ssh", *file, *jump, *self.spec.options, self.alias])


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
    if str(spec) in behind or len(behind) > _MAX_JUMPS:
        raise ValueError(f"its ProxyJump is circular: {' -> '.join((*behind, str(spec)))}")
    options = _read_options(spec, config_file)
    added = jump if jump and _leaves_jump_open(spec, config_file, options, jump) else ""
    to = _destination(spec, config_file, options)
    hosts = _jump(added or _proxy_jump(options), config_file, (*behind, str(spec)))
    return structs.replace(to, jump=hosts, added_jump=added)


def _leaves_jump_open(spec: HostSpec, file: Path | None, options: Options, jump: str) -> bool:
    if {"proxyjump", "proxycommand"} & options.keys():
        return False
    if program := shutil.which("ssh"):
        return leaves_jump_open(program, spec, file, jump)
    return True


def _jump(words: str, config_file: Path | None, behind: tuple[str, ...]) -> Destination | None:
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
    first = next((word for word in options if word in {"proxyjump", "proxycommand"}), "")
    words = options[first][0] if first == "proxyjump" else ""
    return "" if words.lower() == "none" else words


def _read_options(spec: HostSpec, file: Path | None) -> Options:
    if program := shutil.which("ssh"):
        return read_openssh_options(program, spec, file)
    return {**read_paramiko_options(spec.alias, file), **({"port": [spec.port]} if spec.port else {})}


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
        algorithms={keyword: options[keyword][0] for keyword in ALGORITHM_KEYWORDS if keyword in options},
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

ALGORITHM_KEYWORDS = tuple(option.name.lower() for option in _OPTIONS)

_STANDARD_NAME = {"curve25519-sha256@libssh.org": "curve25519-sha256"}


def restrict_algorithms(connection: "paramiko.Transport", lists: Mapping[str, str], alias: str) -> None:
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
    return [name for pattern in patterns.split(",") for name in available if _is(pattern.strip(), name)]


def _is(pattern: str, name: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(_STANDARD_NAME.get(name, name), pattern)


SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")
TIMEOUT = 30.0
"Seconds for the commands of `Match exec` and for the canonicalization of names."

_PATH_LISTS = {"userknownhostsfile", "globalknownhostsfile", "revokedhostkeys"}
_EXPANDED = {"certificatefile", "identityagent", "identityfile", "proxycommand", "proxyjump", *_PATH_LISTS}
# ssh prints paths without quotes, also with blanks in them; each begins with a slash or a tilde.
_NEXT_PATH = re.compile(r"\s+(?=[/~])")


def read_openssh_options(program: str, spec: HostSpec, config_file: Path | None) -> dict[str, list[str]]:
    """The options that ssh would use for a host.

    Raises:
        ValueError: ssh refuses the file; the message is its own.
    """
    file = ["-F", str(config_file)] if config_file else []
    values: dict[str, list[str]] = {}
    for line in _ssh_output([program, "-G", "-T", *file, *spec.options, "--", spec.alias]).splitlines():
        keyword, _, value = line.partition(" ")
        values.setdefault(keyword, []).append(value)
    for keyword in _PATH_LISTS & values.keys():
        values[keyword] = _NEXT_PATH.split(values[keyword][0])
    tokens = _tokens(spec.alias, values)
    return values | {
        key: [_expanded(text, tokens) for text in values[key]] for key in _EXPANDED & values.keys()
    }


def leaves_jump_open(program: str, spec: HostSpec, config_file: Path | None, jump: str) -> bool:
    """Whether ssh_config has neither ProxyJump nor ProxyCommand for a host; `ssh -G` does not print `none`.

    A default that follows all of ssh_config has an effect only if nothing in it applies.
    """
    paths = [config_file] if config_file else [Path(_home(), ".ssh/config"), SYSTEM_CONFIG]
    texts = [files.read_bytes(path) for path in paths if path.exists()]
    with NamedTemporaryFile(prefix="slurmgen-", suffix=".ssh_config") as file:
        file.write(b"\nMatch all\n".join([*texts, f"ProxyJump {jump}\n".encode()]))
        file.flush()
        return "proxyjump" in read_openssh_options(program, spec, Path(file.name))


def _ssh_output(argv: list[str]) -> str:
    try:
        reply = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"`ssh -G` did not finish within {TIMEOUT:g} seconds") from None
    if reply.returncode:
        lines = reply.stderr.decode(errors="replace").splitlines()
        raise ValueError("; ".join(lines) or f"`ssh -G` failed with exit status {reply.returncode}")
    return reply.stdout.decode(errors="surrogateescape")


def _tokens(alias: str, values: dict[str, list[str]]) -> dict[str, str]:
    host, local = values["hostname"][0], socket.gethostname()
    return {
        "%": "%",
        "d": _home(),
        "h": host,
        "i": str(os.getuid()),
        "k": values.get("hostkeyalias", [host])[0],
        "L": local.partition(".")[0],
        "l": local,
        "n": alias,
        "p": values["port"][0],
        "r": values["user"][0],
        "u": getpass.getuser(),
    }


def _expanded(text: str, tokens: dict[str, str]) -> str:
    """A value with its tokens and `~` expanded as ssh does it: not from HOME."""
    text = re.sub(r"^~(?=/)", lambda _: _home(), text)
    return re.sub(r"%(.)", lambda match: tokens.get(match[1], match[0]), text)


def _home() -> str:
    return pwd.getpwuid(os.getuid()).pw_dir


DEEPEST = 16
"How deep files may include one another, as in OpenSSH."
MOST_FILES = 256
"Number of files that are read; each takes longer than the one before."

_ALONE = {"all", "canonical", "final"}
_WITH_VALUE = {"exec", "host", "localuser", "originalhost", "user"}
_PROBE = "slurmgenprobe"


def read_paramiko_options(alias: str, config_file: Path | None) -> dict[str, list[str]]:
    """The options of ssh_config for a host.

    Raises:
        OSError, ValueError: a file cannot be read, or is not valid.
    """
    # OpenSSH ignores the system's file too when it is given one.
    paths = [config_file] if config_file else [Path("~/.ssh/config").expanduser(), SYSTEM_CONFIG]
    lines: list[str] = []
    count = itertools.count(1)
    for path in paths:
        if config_file or path.exists():
            _read(path, alias, lines, count)
            lines.append("Host *")
    return {key: _values(key, value) for key, value in _lookup(lines, alias).items() if value}


def _values(keyword: str, value: str | list[str]) -> list[str]:
    if isinstance(value, list):
        return value
    return shlex.split(value) if keyword in _PATH_LISTS else [value]


def _lookup(lines: list[str], alias: str) -> "paramiko.SSHConfigDict":
    import paramiko  # 0.1 s; with the OpenSSH client it is not needed

    config = paramiko.SSHConfig()
    try:
        config.parse(iter(lines))
        return config.lookup(alias)
    except (paramiko.ConfigParseError, paramiko.CouldNotCanonicalize, ImportError) as error:
        raise ValueError(str(error)) from None  # `Match exec` needs a package that is not installed
    except KeyError as error:
        raise ValueError(f"{error} is missing") from None


def _read(path: Path, alias: str, lines: list[str], count: Iterator[int], depth: int = 0) -> None:
    """Add the lines of a file; those that it includes only if the block around them applies."""
    if depth > DEEPEST or next(count) > MOST_FILES:
        raise ValueError(f"{path} is one of too many files that include one another")
    block = "Host *"
    # A comment may be in any encoding.
    for line in files.read_bytes(path).decode(errors="surrogateescape").splitlines():
        keyword, value = _parts(line)
        if keyword == "match":
            _check_match(value)
        if keyword in {"host", "match"}:
            block = line
        if keyword != "include":
            lines.append(line)
        elif _is_active(block, alias, lines):
            for included in _included(shlex.split(value)):
                _read(included, alias, lines, count, depth + 1)
                lines.append(block)


def _parts(line: str) -> tuple[str, str]:
    keyword, value = [*line.replace("=", " ", 1).split(None, 1), "", ""][:2]
    return keyword.lower(), value.strip()


def _is_active(block: str, alias: str, lines: list[str]) -> bool:
    return _PROBE in _lookup([*lines, block, f"{_PROBE} yes"], alias)


def _check_match(value: str) -> None:
    """Refuse a condition that paramiko does not support: it would treat it as true."""
    words = iter(shlex.split(value))
    for word in words:
        plain = word.removeprefix("!").lower()
        if plain in _WITH_VALUE:
            next(words, None)
        elif plain not in _ALONE:
            raise ValueError(f"`Match {word}` is supported only if `ssh` is installed")


def _included(patterns: Sequence[str]) -> Iterator[Path]:
    home = Path("~/.ssh").expanduser()
    for pattern in patterns:
        whole = home / Path(pattern).expanduser()
        yield from sorted(Path(whole.anchor).glob(str(whole.relative_to(whole.anchor))))


_PATTERN = frozenset("*?!")


def aliases(config_file: str | None = None) -> list[str]:
    """Each name of a Host line that is not a pattern, in the order of the files."""
    path = Path(config_file) if config_file else Path("~/.ssh/config").expanduser()
    return list(dict.fromkeys(_names(path, set())))


def _names(path: Path, seen: set[Path]) -> Iterator[str]:
    if path in seen:
        return
    seen.add(path)
    with suppress(OSError, ValueError, RuntimeError):
        for line in files.read_bytes(path).decode(errors="replace").splitlines():
            keyword, *words = line.replace("=", " ", 1).replace('"', " ").split() or [""]
            if keyword.lower() == "host":
                yield from (word for word in words if not _PATTERN.intersection(word))
            elif keyword.lower() == "include":
                for included in _included(words):
                    yield from _names(included, seen)
