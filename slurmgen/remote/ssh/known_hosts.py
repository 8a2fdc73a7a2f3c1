"""The lines of known_hosts, read as OpenSSH reads them: what it skips is skipped here."""

import contextlib
import os
import re
from base64 import b64decode
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import paramiko
from msgspec import Struct
from paramiko.hostkeys import HostKeys

from slurmgen import files

LIMIT = 16_000_000
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


def entries(path: Path, host: str) -> Iterator[Entry]:
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
        return files.read_bytes(path, LIMIT)
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
    """Whether the first field of a line, a hashed name or patterns, is for a host."""
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
