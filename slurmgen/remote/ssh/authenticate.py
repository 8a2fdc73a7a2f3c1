"""Log in with keys, certificates, an agent, passwords or one-time codes."""

import contextlib
import io
import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
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
from slurmgen.errors import AuthenticationFailed
from slurmgen.remote.ssh.config import Destination
from slurmgen.remote.ssh.prompt import ATTEMPTS, Prompt
from slurmgen.text import counted, visible

_AGENT = "SSH_AUTH_SOCK"


def log_in(transport: paramiko.Transport, to: Destination, prompt: Prompt | None) -> str:
    """Authenticate as `to.user`; `prompt` is None without a terminal.

    Returns the name of the key, or the method, that the host accepted last.

    Raises:
        AuthenticationFailed: the host accepted none.
    """
    tried: list[str] = []
    accepted = _accepted(transport, to.user)
    if "publickey" in accepted and "publickey" in to.methods:
        accepted = _offer_keys(transport, to, prompt, accepted, tried)
    if not transport.is_authenticated() and prompt:
        accepted = _answer_prompts(transport, to, prompt, accepted, tried)
    if not transport.is_authenticated():
        raise _refused(to, accepted, tried, prompt)
    return tried[-1] if tried else "no authentication"


def _accepted(transport: paramiko.Transport, user: str) -> set[str]:
    try:
        transport.auth_none(user)
    except paramiko.BadAuthenticationType as error:
        return set(error.allowed_types)
    return set()


def _offer_keys(
    transport: paramiko.Transport,
    to: Destination,
    prompt: Prompt | None,
    accepted: set[str],
    tried: list[str],
) -> set[str]:
    with _agent_keys(to.agent) as held:
        for title, key in _keys(held, to, prompt):
            tried.append(title)
            with contextlib.suppress(paramiko.AuthenticationException):
                return set(transport.auth_publickey(to.user, key))
            if not transport.is_active():  # OpenSSH's MaxAuthTries, mostly 6
                raise AuthenticationFailed(
                    f"{to.alias} closed the connection after {counted(len(tried), 'key')}, "
                    f"none of which it accepts for {to.user}",
                    "Name the right one in ssh_config with IdentityFile, and set IdentitiesOnly yes.",
                )
    return accepted - {"publickey"}


def _keys(
    held: Iterable[paramiko.AgentKey], to: Destination, prompt: Prompt | None
) -> Iterator[tuple[str, paramiko.PKey]]:
    """The agent's keys that a key file names, its others, then the files: as in OpenSSH."""
    public = {path: public_blob(path) for path in to.identity_files}
    place = {blob: number for number, blob in enumerate(public.values())}
    known = [(agent_key_blob(key), key) for key in held]
    wanted = [(blob, key) for blob, key in known if not to.identities_only or blob in place]
    # A host closes the connection after some keys, mostly six, and an agent may hold more.
    for _, agent_key in sorted(wanted, key=lambda one: place.get(one[0], len(place))):
        yield from certificate_of(agent_key, to.certificate_files)
        yield f"{agent_key.fingerprint} of the agent", as_held(agent_key)
    offered = {blob for blob, _ in wanted}
    for path in to.identity_files:
        # A key that the agent holds was offered already, and its file may need a passphrase.
        if public[path] not in offered and (key := load_key(path, prompt)):
            yield from certificate_of(key, (*to.certificate_files, certificate_beside(path)))
            yield str(path), key


@contextlib.contextmanager
def _agent_keys(socket: str | None) -> Iterator[tuple[paramiko.AgentKey, ...]]:
    """The keys of the agent, which paramiko finds only by an environment variable."""
    if socket == "none":
        yield ()
        return
    before = os.environ.get(_AGENT)
    try:
        os.environ.update({_AGENT: socket} if socket else {})
        with contextlib.closing(paramiko.Agent()) as agent:
            yield agent.get_keys()
    finally:
        if socket and before is None:
            del os.environ[_AGENT]
        elif socket and before:
            os.environ[_AGENT] = before


def _answer_prompts(
    transport: paramiko.Transport, to: Destination, prompt: Prompt, accepted: set[str], tried: list[str]
) -> set[str]:
    for _ in range(ATTEMPTS):
        method = next((method for method in to.methods if method in accepted & _METHODS.keys()), None)
        if transport.is_authenticated() or method is None or not transport.is_active():
            break
        tried.append(method)
        try:
            accepted = set(_METHODS[method](transport, to, prompt))
        except paramiko.BadAuthenticationType as error:
            accepted = set(error.allowed_types) - {method}
        except paramiko.AuthenticationException:
            continue
    return accepted


def _interactive(transport: paramiko.Transport, to: Destination, prompt: Prompt) -> Iterable[str]:
    def handler(title: str, instructions: str, prompts: list[tuple[str, bool]]) -> list[str]:
        head = f"{title} {instructions}".strip()
        if head and not prompts:  # such as "approve it on your phone"
            prompt.show(_printable(f"({_account(to)}) {head}"))
        return [prompt(_printable(f"({_account(to)}) {f'{head} {text}'.strip()}")) for text, _ in prompts]

    return transport.auth_interactive(to.user, handler)


def _password(transport: paramiko.Transport, to: Destination, prompt: Prompt) -> Iterable[str]:
    return transport.auth_password(to.user, prompt(f"Password of {_account(to)}: "), fallback=False)


def _account(to: Destination) -> str:
    return f"{to.user}@{to.alias}"


_METHODS: dict[str, Callable[[paramiko.Transport, Destination, Prompt], Iterable[str]]] = {
    "keyboard-interactive": _interactive,
    "password": _password,
}


def _printable(text: str) -> str:
    """A host's prompt without characters that control the terminal."""
    return visible(text.replace("\r\n", "\n"), keep="\n") + " "


def _refused(
    to: Destination, accepted: set[str], tried: list[str], prompt: Prompt | None
) -> AuthenticationFailed:
    hint = f"Give the right user with --host USER@HOST, or have your key accepted: ssh-copy-id {to.alias}"
    if not prompt and accepted & _METHODS.keys() & set(to.methods):
        hint += ". It accepts a password or code, but there is no terminal here to prompt for one."
    return AuthenticationFailed(
        f"{to.alias} refused the login of {to.user} with {', '.join(tried) or 'no key'}",
        hint,
    )


_FOREVER = 2**64 - 1
_UNREADABLE = Exception
"What is raised for an invalid certificate: cryptography does not document it."


def certificate_of(key: paramiko.PKey, paths: Iterable[Path]) -> Iterator[tuple[str, paramiko.PKey]]:
    """The key with each of its certificates among the files, by the file's name."""
    for file in paths:
        with contextlib.suppress(_UNREADABLE):  # the file is missing, or is something else
            text = files.read_text(file)
            if _is_of(text.encode(), key):
                certified = _copy(key)
                certified.public_blob = PublicBlob.from_string(text)
                yield str(file), certified


def certificate_beside(path: Path) -> Path:
    """The default path of a key's certificate."""
    return path.with_name(f"{path.name.removesuffix('.pub')}-cert.pub")


def certificate_expiry(path: Path) -> float | None:
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


def agent_key_blob(key: paramiko.AgentKey) -> bytes:
    """The public half of an agent's key, also if the agent holds only its certificate."""
    if "-cert-" not in key.get_name():
        return key.asbytes()
    with contextlib.suppress(_UNREADABLE):
        return _certified_blob(f"{key.get_name()} {b64encode(key.blob).decode()}".encode())
    return key.blob


def _is_of(text: bytes, key: paramiko.PKey) -> bool:
    return _certified_blob(text) == key.asbytes()


def _certified_blob(text: bytes) -> bytes:
    certificate = load_ssh_public_identity(text)
    if not isinstance(certificate, SSHCertificate):
        return b""
    public = certificate.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return b64decode(public.split()[1])


_KINDS = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)


def public_blob(path: Path) -> bytes | None:
    """The public key from the .pub file beside a key file; None without one."""
    public = path if path.suffix == ".pub" else path.with_name(f"{path.name}.pub")
    try:
        return b64decode(files.read_text(public).split()[1], validate=True)
    except (OSError, ValueError, IndexError):
        return None


def load_key(path: Path, prompt: Prompt | None) -> paramiko.PKey | None:
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
