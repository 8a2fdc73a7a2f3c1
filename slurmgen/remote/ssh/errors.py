"""What paramiko and the socket raise, as our errors: one table, one context manager."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct
from paramiko import ssh_exception as ssh
from paramiko.auth_strategy import AuthFailure
from paramiko.ber import BERException
from paramiko.buffered_pipe import PipeTimeout
from paramiko.hostkeys import InvalidHostKey
from paramiko.packet import NeedRekeyException
from paramiko.pkey import UnknownKeyType
from paramiko.sftp import SFTPError

from slurmgen import errors
from slurmgen.text import visible

_MOST = 300
"Characters of a foreign message, which may quote what a host sent."
_TRY_SSH = "`{ssh}` should work first."


class Ours(Struct, frozen=True):
    """The error that a foreign one becomes; its texts may name alias, host, port, user and ssh."""

    kind: type[errors.SlurmgenError]
    fact: str
    hint: str


_NO_ROUTE = Ours(
    errors.ConnectionFailed,
    "cannot connect to {alias} at {host} port {port}",
    f"Check the host name and your network (is a VPN needed?); {_TRY_SSH}",
)
_SILENT = Ours(errors.ConnectionFailed, "{alias} did not answer in time", _NO_ROUTE.hint)
_BROKE = Ours(errors.ConnectionFailed, "the connection to {alias} broke", f"Try again; {_TRY_SSH}")
_NO_COMMON = Ours(
    errors.ConnectionFailed,
    "{alias} has no algorithm that is allowed here",
    "OpenSSH's client has more: --ssh-client openssh. Ciphers, MACs, KexAlgorithms and "
    f"HostKeyAlgorithms in ssh_config allow more; {_TRY_SSH}",
)
_REFUSED = Ours(
    errors.AuthenticationFailed, "{alias} did not let {user} in", f"Check user and key; {_TRY_SSH}"
)
_BAD_KEY = Ours(errors.AuthenticationFailed, "a key cannot be used", f"Check your keys; {_TRY_SSH}")
_BAD_HOST = Ours(errors.HostKeyError, "the host key of {alias} cannot be trusted", "Check known_hosts.")

ERRORS: dict[type[Exception], Ours] = {
    ssh.BadHostKeyException: _BAD_HOST,
    InvalidHostKey: _BAD_HOST,
    ssh.AuthenticationException: _REFUSED,
    ssh.BadAuthenticationType: _REFUSED,
    ssh.PartialAuthentication: _REFUSED,
    ssh.UnableToAuthenticate: _REFUSED,
    AuthFailure: _REFUSED,
    ssh.PasswordRequiredException: _BAD_KEY,
    UnknownKeyType: _BAD_KEY,
    BERException: _BAD_KEY,
    ssh.ConfigParseError: Ours(errors.ConfigError, "ssh_config cannot be read", "Mend it."),
    SFTPError: Ours(errors.TransferFailed, "a file could not be sent to {alias}", "Try again."),
    ssh.CouldNotCanonicalize: _NO_ROUTE,
    ssh.ProxyCommandFailure: _NO_ROUTE,
    ssh.NoValidConnectionsError: _NO_ROUTE,
    socket.gaierror: _NO_ROUTE,
    UnicodeError: _NO_ROUTE,
    OSError: _NO_ROUTE,
    TimeoutError: _SILENT,
    PipeTimeout: _SILENT,
    ssh.ChannelException: _BROKE,
    ssh.IncompatiblePeer: _NO_COMMON,
    ssh.MessageOrderError: _BROKE,
    NeedRekeyException: _BROKE,
    ssh.SSHException: _BROKE,
    EOFError: _BROKE,
    ConnectionResetError: _BROKE,
    BrokenPipeError: _BROKE,
}
"Every error of paramiko and the socket; the nearest class counts."


@contextmanager
def translated(**names: object) -> Iterator[None]:
    """Raise our error for a foreign one; `names` are alias, host, port, user and ssh."""
    try:
        yield
    except tuple(ERRORS) as error:
        ours = ERRORS[next(kind for kind in type(error).__mro__ if kind in ERRORS)]
        why = f": {visible(str(error)[:_MOST])}" if str(error) else ""
        raise ours.kind(ours.fact.format(**names) + why, ours.hint.format(**names)) from error
