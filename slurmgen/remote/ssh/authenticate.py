"""Authentication: with the keys of the agent and of files first, then with what the user types.

The user is prompted for a passphrase, password or code when it is needed; none is kept.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator

import paramiko

from slurmgen.errors import AuthenticationFailed
from slurmgen.remote.ssh import certificates, key_files
from slurmgen.remote.ssh.destination import Destination
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
    """The methods that the host accepts."""
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
    """Offer keys until one is accepted; returns the methods that are still required."""
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
    public = {path: key_files.public_blob(path) for path in to.identity_files}
    place = {blob: number for number, blob in enumerate(public.values())}
    known = [(certificates.public_blob(key), key) for key in held]
    wanted = [(blob, key) for blob, key in known if not to.identities_only or blob in place]
    # A host closes the connection after some keys, mostly six, and an agent may hold more.
    for _, agent_key in sorted(wanted, key=lambda one: place.get(one[0], len(place))):
        yield from certificates.of(agent_key, to.certificate_files)
        yield f"{agent_key.fingerprint} of the agent", certificates.as_held(agent_key)
    offered = {blob for blob, _ in wanted}
    for path in to.identity_files:
        # A key that the agent holds was offered already, and its file may need a passphrase.
        if public[path] not in offered and (key := key_files.load(path, prompt)):
            yield from certificates.of(key, (*to.certificate_files, certificates.beside(path)))
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
    """Try the methods that need a prompt, until the host accepts the login."""
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
    """The account in a prompt: jump hosts have prompts too."""
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
