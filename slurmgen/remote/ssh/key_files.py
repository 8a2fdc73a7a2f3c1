"""Key files: the private keys in them, and the public keys beside them."""

import io
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import paramiko

from slurmgen import files
from slurmgen.remote.ssh.prompt import ATTEMPTS, Prompt

_KINDS = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)


def public_blob(path: Path) -> bytes | None:
    """The public key from the .pub file beside a key file; None without one."""
    public = path if path.suffix == ".pub" else path.with_name(f"{path.name}.pub")
    try:
        return b64decode(files.read_text(public).split()[1], validate=True)
    except (OSError, ValueError, IndexError):
        return None


def load(path: Path, prompt: Prompt | None) -> paramiko.PKey | None:
    """The key in a file; None if there is none, or if no passphrase decrypts it."""
    try:
        text = files.read_text(path)
    except (OSError, ValueError):
        return None
    for password in _passphrases(path, prompt):
        try:
            return _private_key(text, password)
        except paramiko.PasswordRequiredException:
            continue
        except ValueError:  # not a key, or the wrong passphrase
            if password is None:
                return None
    return None


def _private_key(text: str, password: bytes | None) -> paramiko.PKey:
    """The private key of any type in a file's text.

    Raises:
        PasswordRequiredException: it is encrypted, and `password` is None.
        ValueError: it is not a key, or the password is wrong.
    """
    is_locked = False
    for kind in _KINDS:
        try:
            # paramiko's annotation says str, cryptography beneath it wants bytes.
            return kind.from_private_key(io.StringIO(text), password)  # type: ignore[arg-type]
        except paramiko.PasswordRequiredException:
            is_locked = True
        except Exception:  # noqa: S112 (paramiko does not document what it raises for invalid text)
            continue
    if is_locked:
        raise paramiko.PasswordRequiredException
    raise ValueError("not a private key")


def _passphrases(path: Path, prompt: Prompt | None) -> Iterator[bytes | None]:
    yield None
    for _ in range(ATTEMPTS if prompt else 0):
        assert prompt  # noqa: S101 (for mypy)
        yield prompt(f"Passphrase of {path}: ").encode()
