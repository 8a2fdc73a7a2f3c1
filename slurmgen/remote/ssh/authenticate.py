"""Logging in: the agent and key files first, then what only a person can answer.

A passphrase, password or code is asked for when it is needed, handed on, and forgotten.
"""

import contextlib
import io
import os
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import paramiko

from slurmgen import files
from slurmgen.errors import AuthenticationFailed
from slurmgen.remote.ssh import certificates
from slurmgen.remote.ssh.config import Destination
from slurmgen.remote.ssh.prompt import Ask
from slurmgen.text import counted, visible

_AGENT = "SSH_AUTH_SOCK"
_KINDS = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)
PROMPTS = 3
"How often a person may answer wrongly, as in OpenSSH."


def log_in(transport: paramiko.Transport, to: Destination, ask: Ask | None) -> str:
    """Prove to the host that we are `to.user`; `ask` is None where there is no terminal.

    Returns what it took at last: a key by its name, or the kind of answer.

    Raises:
        AuthenticationFailed: nothing that we have lets us in.
    """
    tried: list[str] = []
    accepted = _accepted(transport, to.user)
    if "publickey" in accepted and "publickey" in to.methods:
        accepted = _offer_keys(transport, to, ask, accepted, tried)
    if not transport.is_authenticated() and ask:
        accepted = _answer(transport, to, ask, accepted, tried)
    if not transport.is_authenticated():
        raise _refused(to, accepted, tried, ask)
    return tried[-1] if tried else "no proof at all"


def _accepted(transport: paramiko.Transport, user: str) -> set[str]:
    """The methods that the host accepts."""
    try:
        transport.auth_none(user)
    except paramiko.BadAuthenticationType as error:
        return set(error.allowed_types)
    return set()


def _offer_keys(
    transport: paramiko.Transport, to: Destination, ask: Ask | None, accepted: set[str], tried: list[str]
) -> set[str]:
    """Offer keys until one is taken; returns the methods that are then still wanted."""
    with _agent_keys(to.agent) as held:
        for title, key in _keys(held, to, ask):
            tried.append(title)
            with contextlib.suppress(paramiko.AuthenticationException):
                return set(transport.auth_publickey(to.user, key))
            if not transport.is_active():  # OpenSSH's MaxAuthTries, mostly 6
                raise AuthenticationFailed(
                    f"{to.alias} hung up after {counted(len(tried), 'key')}, none of which lets {to.user} in",
                    "Name the right one in ssh_config with IdentityFile, and say IdentitiesOnly yes.",
                )
    return accepted - {"publickey"}


def _keys(
    held: Iterable[paramiko.AgentKey], to: Destination, ask: Ask | None
) -> Iterator[tuple[str, paramiko.PKey]]:
    """The agent's keys that a key file names, its others, then the files: as in OpenSSH."""
    public = {path: _public_blob(path) for path in to.identity_files}
    place = {blob: number for number, blob in enumerate(public.values())}
    known = [(certificates.public_blob(key), key) for key in held]
    wanted = [(blob, key) for blob, key in known if not to.identities_only or blob in place]
    # A host hangs up after some keys, mostly six, and an agent may hold more.
    for _, agent_key in sorted(wanted, key=lambda one: place.get(one[0], len(place))):
        yield from certificates.of(agent_key, to.certificate_files)
        yield f"{agent_key.fingerprint} of the agent", certificates.as_held(agent_key)
    offered = {blob for blob, _ in wanted}
    for path in to.identity_files:
        # A key that the agent holds was offered already, and its file may need a passphrase.
        if public[path] not in offered and (key := _load(path, ask)):
            yield from certificates.of(key, (*to.certificate_files, certificates.beside(path)))
            yield str(path), key


@contextlib.contextmanager
def _agent_keys(socket: str | None) -> Iterator[tuple[paramiko.AgentKey, ...]]:
    """What the agent holds; paramiko finds it by a variable alone."""
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


def _public_blob(path: Path) -> bytes | None:
    """The public half of a key file, where it lies beside it as usual."""
    public = path if path.suffix == ".pub" else path.with_name(f"{path.name}.pub")
    try:
        return b64decode(files.read_text(public).split()[1], validate=True)
    except (OSError, ValueError, IndexError):
        return None


def _load(path: Path, ask: Ask | None) -> paramiko.PKey | None:
    """The key in a file; None if there is none, or it stays locked."""
    try:
        text = files.read_text(path)
    except (OSError, ValueError):
        return None
    for password in _passphrases(path, ask):
        try:
            return _private_key(text, password)
        except paramiko.PasswordRequiredException:
            continue
        except ValueError:  # not a key, or the wrong passphrase
            if password is None:
                return None
    return None


def _private_key(text: str, password: bytes | None) -> paramiko.PKey:
    """The key that a file's text stands for, of whichever kind.

    Raises:
        PasswordRequiredException: it is locked, and there is no password.
        ValueError: it is not a key, or the password is wrong.
    """
    is_locked = False
    for kind in _KINDS:
        try:
            # paramiko's annotation says str, cryptography beneath it wants bytes.
            return kind.from_private_key(io.StringIO(text), password)  # type: ignore[arg-type]
        except paramiko.PasswordRequiredException:
            is_locked = True
        except Exception:  # noqa: S112 (what paramiko raises for junk is not documented)
            continue
    if is_locked:
        raise paramiko.PasswordRequiredException
    raise ValueError("not a private key")


def _passphrases(path: Path, ask: Ask | None) -> Iterator[bytes | None]:
    yield None
    for _ in range(PROMPTS if ask else 0):
        assert ask  # noqa: S101 (for mypy)
        yield ask(f"Passphrase of {path}: ").encode()


def _answer(
    transport: paramiko.Transport, to: Destination, ask: Ask, accepted: set[str], tried: list[str]
) -> set[str]:
    """Let the person answer, method after method, until the host is content."""
    for _ in range(PROMPTS):
        method = next((method for method in to.methods if method in accepted & _METHODS.keys()), None)
        if transport.is_authenticated() or method is None or not transport.is_active():
            break
        tried.append(method)
        try:
            accepted = set(_METHODS[method](transport, to, ask))
        except paramiko.BadAuthenticationType as error:
            accepted = set(error.allowed_types) - {method}
        except paramiko.AuthenticationException:
            continue
    return accepted


def _interactive(transport: paramiko.Transport, to: Destination, ask: Ask) -> Iterable[str]:
    def handler(title: str, instructions: str, prompts: list[tuple[str, bool]]) -> list[str]:
        head = f"{title} {instructions}".strip()
        if head and not prompts:  # such as "approve it on your phone"
            ask.tell(_shown(f"({_who(to)}) {head}"))
        return [ask(_shown(f"({_who(to)}) {f'{head} {prompt}'.strip()}")) for prompt, _ in prompts]

    return transport.auth_interactive(to.user, handler)


def _password(transport: paramiko.Transport, to: Destination, ask: Ask) -> Iterable[str]:
    return transport.auth_password(to.user, ask(f"Password of {_who(to)}: "), fallback=False)


def _who(to: Destination) -> str:
    """Whom a question is about: on the way there may be hosts that ask too."""
    return f"{to.user}@{to.alias}"


_METHODS: dict[str, Callable[[paramiko.Transport, Destination, Ask], Iterable[str]]] = {
    "keyboard-interactive": _interactive,
    "password": _password,
}


def _shown(text: str) -> str:
    """A host's prompt, in which nothing can steer the terminal."""
    return visible(text.replace("\r\n", "\n"), keep="\n") + " "


def _refused(to: Destination, accepted: set[str], tried: list[str], ask: Ask | None) -> AuthenticationFailed:
    hint = f"Give the right user with --host USER@HOST, or have your key accepted: ssh-copy-id {to.alias}"
    if not ask and accepted & _METHODS.keys() & set(to.methods):
        hint += ". A password or code would be asked for in a terminal, but there is no terminal here."
    return AuthenticationFailed(
        f"{to.alias} did not let {to.user} in, who tried {', '.join(tried) or 'no key'}",
        hint,
    )
