"""Certificates of users' keys: what an authority says of a key, offered instead of the bare key.

A host checks them (TrustedUserCAKeys); here they are only matched with the key they are of.
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

_UNREADABLE = Exception
"What is raised for a text that is not a certificate we can use: cryptography does not document it."


def of(key: paramiko.PKey, paths: Iterable[Path]) -> Iterator[tuple[str, paramiko.PKey]]:
    """The key with each certificate among the files that is its own, by the file's name."""
    for file in paths:
        with contextlib.suppress(_UNREADABLE):  # there is none, or it is something else
            text = files.read_text(file)
            if _is_of(text.encode(), key):
                certified = _copy(key)
                certified.public_blob = PublicBlob.from_string(text)
                yield str(file), certified


def beside(path: Path) -> Path:
    """Where a key's certificate lies if nobody says otherwise."""
    return path.with_name(f"{path.name.removesuffix('.pub')}-cert.pub")


def as_held(key: paramiko.AgentKey) -> paramiko.AgentKey:
    """An agent's key as it is to be offered: paramiko would name a certificate, but send the bare key."""
    if "-cert-" in key.get_name():
        key.public_blob = PublicBlob.from_message(paramiko.Message(key.blob))  # type: ignore[assignment]
    return key


def _copy(key: paramiko.PKey) -> paramiko.PKey:
    if isinstance(key, paramiko.AgentKey):  # copy() would never come to an end
        return paramiko.AgentKey(key.agent, key.blob, key.comment)
    return copy(key)


def public_blob(key: paramiko.AgentKey) -> bytes:
    """The public half of an agent's key, also where it holds only a certificate of it."""
    if "-cert-" not in key.get_name():
        return key.asbytes()
    with contextlib.suppress(_UNREADABLE):
        return _certified_blob(f"{key.get_name()} {b64encode(key.blob).decode()}".encode())
    return key.blob


def _is_of(text: bytes, key: paramiko.PKey) -> bool:
    return _certified_blob(text) == key.asbytes()


def _certified_blob(text: bytes) -> bytes:
    """The public key that a certificate vouches for; empty if it is none."""
    certificate = load_ssh_public_identity(text)
    if not isinstance(certificate, SSHCertificate):
        return b""
    public = certificate.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return b64decode(public.split()[1])
