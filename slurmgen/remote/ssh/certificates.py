"""User certificates, offered to a host together with their keys.

The host verifies them (TrustedUserCAKeys); this module only finds those of a key.
"""

import contextlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from copy import copy
from pathlib import Path

import paramiko
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    SSHCertificate,
    load_ssh_public_identity,
)
from paramiko.pkey import PublicBlob

from slurmgen import files

_FOREVER = 2**64 - 1
_UNREADABLE = Exception
"What is raised for an invalid certificate: cryptography does not document it."


def of(key: paramiko.PKey, paths: Iterable[Path]) -> Iterator[tuple[str, paramiko.PKey]]:
    """The key with each of its certificates among the files, by the file's name."""
    for file in paths:
        with contextlib.suppress(_UNREADABLE):  # the file is missing, or is something else
            text = files.read_text(file)
            if _is_of(text.encode(), key):
                certified = _copy(key)
                certified.public_blob = PublicBlob.from_string(text)
                yield str(file), certified


def beside(path: Path) -> Path:
    """The default path of a key's certificate."""
    return path.with_name(f"{path.name.removesuffix('.pub')}-cert.pub")


def expiry(path: Path) -> float | None:
    """When a certificate expires, in seconds since 1970; infinity for never, None without a certificate."""
    with contextlib.suppress(_UNREADABLE):  # the file is missing, or is something else
        certificate = load_ssh_public_identity(files.read_text(path).encode())
        if isinstance(certificate, SSHCertificate):
            return float("inf") if certificate.valid_before >= _FOREVER else float(certificate.valid_before)
    return None


def as_held(key: paramiko.AgentKey) -> paramiko.AgentKey:
    """An agent's key with its certificate: paramiko would name the certificate, but send the bare key."""
    if "-cert-" in key.get_name():
        key.public_blob = PublicBlob.from_message(paramiko.Message(key.blob))  # type: ignore[assignment]
    return key


def _copy(key: paramiko.PKey) -> paramiko.PKey:
    if isinstance(key, paramiko.AgentKey):  # copy() would recurse without end
        return paramiko.AgentKey(key.agent, key.blob, key.comment)
    return copy(key)


def public_blob(key: paramiko.AgentKey) -> bytes:
    """The public half of an agent's key, also if the agent holds only its certificate."""
    if "-cert-" not in key.get_name():
        return key.asbytes()
    with contextlib.suppress(_UNREADABLE):
        return _certified_blob(f"{key.get_name()} {b64encode(key.blob).decode()}".encode())
    return key.blob


def _is_of(text: bytes, key: paramiko.PKey) -> bool:
    return _certified_blob(text) == key.asbytes()


def _certified_blob(text: bytes) -> bytes:
    """The public key in a certificate; empty for anything else."""
    certificate = load_ssh_public_identity(text)
    if not isinstance(certificate, SSHCertificate):
        return b""
    public = certificate.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return b64decode(public.split()[1])
