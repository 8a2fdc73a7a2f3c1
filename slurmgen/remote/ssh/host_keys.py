"""Check the key of a host."""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from base64 import b64decode
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import paramiko
from msgspec import Struct
from paramiko.hostkeys import HostKeys

from slurmgen import files
from slurmgen.errors import ConfigError, HostKeyError
from slurmgen.files import NotPlainFile
from slurmgen.remote.ssh.config import Destination

KNOWN_HOSTS_LIMIT = 16_000_000
"Bytes of a file; those of large sites have a few megabytes."
REVOKED, AUTHORITY = "@revoked", "@cert-authority"
_BLANKS = re.compile(r"[ \t]+")
# OpenSSH accepts these as names of the key, too.
_RSA = {"ssh-rsa", "rsa-sha2-256", "rsa-sha2-512"}
# Its base64 decoder skips them, such as the carriage return of a file from Windows.
_SKIPPED = str.maketrans("", "", "\r\v\f")


class Entry(Struct, frozen=True):
    """A key of a host."""

    marker: str
    "`@revoked`, `@cert-authority` or nothing."
    key: paramiko.PKey


def known_entries(path: Path, host: str) -> Iterator[Entry]:
    """The keys that a known_hosts file has for a host.

    As in OpenSSH, a file that is missing or may not be read has none, and a line that is not valid is
    skipped.

    Raises:
        NotPlainFile: it is not a regular file, or too large.
    """
    for line in _lines_of(path):
        words = _BLANKS.split(line)
        marker = words.pop(0) if line.startswith("@") else ""
        if marker not in {"", REVOKED, AUTHORITY} or len(words) < 3 or not _is_for(words[0], host):
            continue
        if key := public_key(words[1], words[2]):
            yield Entry(marker, key)


def lines(content: bytes) -> Iterator[str]:
    """The lines of a file of keys, without comments; each ends at a line feed or, as in C, at a NUL."""
    for raw in content.split(b"\n"):
        line = raw.partition(b"\0")[0].decode(errors="replace").strip(" \t")
        if line and not line.startswith(("#", "\r")):
            yield line


def public_key(kind: str, text: str) -> paramiko.PKey | None:
    """The key in two words of a line; None if they are not exactly one key."""
    text = text.translate(_SKIPPED)
    # What paramiko raises for bytes that are not a key is not documented.
    with contextlib.suppress(Exception):
        blob = b64decode(text, validate=True)
        name = paramiko.Message(blob).get_text()
        key = paramiko.PKey.from_type_string(name, blob)
        if key.get_base64() == text and (kind == name or {kind, name} <= _RSA):
            return key
    return None


def content(path: Path) -> bytes:
    """The bytes of a file of keys.

    Raises:
        OSError: as `files.read_bytes`; /dev/null is empty.
    """
    try:
        return files.read_bytes(path, KNOWN_HOSTS_LIMIT)
    except files.NotPlainFile:
        if path.samefile(os.devnull):
            return b""
        raise


def _lines_of(path: Path) -> Iterator[str]:
    try:
        return lines(content(path))
    except files.NotPlainFile:
        raise
    except (OSError, ValueError):
        return iter(())


def _is_for(field: str, host: str) -> bool:
    if field.startswith("|"):
        with contextlib.suppress(AssertionError, IndexError, ValueError):
            return HostKeys.hash_host(host, field) == field
        return False
    patterns = field.lower().split(",")
    if any(_matches(pattern[1:], host) for pattern in patterns if pattern.startswith("!")):
        return False
    return any(_matches(pattern, host) for pattern in patterns)


def _matches(pattern: str, host: str) -> bool:
    # fnmatch would take `[host]:port` for a set of characters.
    return fnmatchcase(host.lower(), pattern.replace("[", "[[]"))


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
        """The host key algorithms to request; the known keys' algorithms come first."""
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
            found += known_entries(path, host)
        except NotPlainFile as error:
            raise ConfigError(f"cannot read {path}: {error}", "Name another file in ssh_config.") from None
    return found


_MAGIC = b"SSHKRL\n\0"
_TIMEOUT = 30.0


def is_revoked(key: paramiko.PKey, paths: Iterable[Path]) -> bool:
    """Whether one of the files revokes a key.

    Raises:
        ConfigError: a file cannot be read; ssh then refuses every host, too.
    """
    return any(_is_revoked(key, path) for path in paths)


def _is_revoked(key: paramiko.PKey, path: Path) -> bool:
    try:
        data = content(path)
        if data.startswith(_MAGIC):
            return _is_in_list(key, path)
        return key.asbytes() in [b64decode(line.split()[1], validate=True) for line in lines(data)]
    except IndexError:
        error: object = "a line is not a public key"
    except (OSError, ValueError, subprocess.TimeoutExpired) as reason:
        error = reason
    raise ConfigError(
        f"cannot read RevokedHostKeys {path}: {error}",
        "Name a file of public keys or of `ssh-keygen -k`, or remove the option from ssh_config.",
    )


def _is_in_list(key: paramiko.PKey, path: Path) -> bool:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise ValueError("ssh-keygen is not installed")
    with tempfile.NamedTemporaryFile("w", suffix=".pub") as public:
        public.write(f"{key.get_name()} {key.get_base64()}\n")
        public.flush()
        argv = [program, "-Q", "-f", str(path), public.name]
        reply = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    if reply.returncode and not reply.stdout.rstrip().endswith("REVOKED"):
        raise ValueError(reply.stderr.strip() or f"ssh-keygen ended with exit status {reply.returncode}")
    return reply.returncode != 0
