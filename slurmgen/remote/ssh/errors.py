"""Errors of paramiko and the socket as slurmgen's own: one table, one context manager."""

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
from slurmgen.remote.ssh.config import Destination
from slurmgen.text import visible

_LONGEST = 300
"Characters of a foreign message, which may quote text from the host."
_TRY_SSH = "`{ssh}` must work first."


class Dropped(ssh.SSHException):
    """The host ended the connection before its first line of SSH."""


class Translation(Struct, frozen=True):
    """slurmgen's error for a foreign one; its texts are formatted with alias, host, port, user and ssh."""

    kind: type[errors.SlurmgenError]
    fact: str
    hint: str


_NO_ROUTE = Translation(
    errors.ConnectionFailed,
    "cannot connect to {alias} at {host} port {port}",
    f"Check the host name and your network (is a VPN needed?); {_TRY_SSH}",
)
_SILENT = Translation(errors.ConnectionFailed, "{alias} did not reply in time", _NO_ROUTE.hint)
_BROKE = Translation(errors.ConnectionBroke, "the connection to {alias} broke", f"Try again; {_TRY_SSH}")
_DROPPED = Translation(errors.LoginDropped, _BROKE.fact, _BROKE.hint)
_NO_COMMON = Translation(
    errors.ConnectionFailed,
    "{alias} has no algorithm that is allowed here",
    "OpenSSH's client has more: use --ssh-client openssh. Ciphers, MACs, KexAlgorithms and "
    f"HostKeyAlgorithms in ssh_config allow more; {_TRY_SSH}",
)
_REFUSED = Translation(
    errors.AuthenticationFailed, "{alias} refused the login of {user}", f"Check user and key; {_TRY_SSH}"
)
_BAD_KEY = Translation(errors.AuthenticationFailed, "a key cannot be used", f"Check your keys; {_TRY_SSH}")
_BAD_HOST = Translation(
    errors.HostKeyError, "the host key of {alias} cannot be trusted", "Check known_hosts."
)

ERRORS: dict[type[Exception], Translation] = {
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
    ssh.ConfigParseError: Translation(errors.ConfigError, "ssh_config cannot be read", "Correct the file."),
    SFTPError: Translation(errors.TransferFailed, "a file could not be sent to {alias}", "Try again."),
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
    Dropped: _DROPPED,
    ssh.SSHException: _BROKE,
    EOFError: _BROKE,
    ConnectionResetError: _BROKE,
    BrokenPipeError: _BROKE,
}
"Every error of paramiko and the socket; the nearest base class counts."


@contextmanager
def translated(to: Destination) -> Iterator[None]:
    """Raise slurmgen's error for a foreign one on the way to a host."""
    try:
        yield
    except tuple(ERRORS) as error:
        translation = ERRORS[next(kind for kind in type(error).__mro__ if kind in ERRORS)]
        why = f": {visible(str(error)[:_LONGEST])}" if str(error) else ""
        names = to.names
        raise translation.kind(
            translation.fact.format(**names) + why, translation.hint.format(**names)
        ) from error
