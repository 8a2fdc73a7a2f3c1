"""What paramiko and the socket raise, as our errors: one table, one context manager."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import paramiko
from paramiko.auth_strategy import AuthFailure
from paramiko.ber import BERException
from paramiko.buffered_pipe import PipeTimeout
from paramiko.hostkeys import InvalidHostKey
from paramiko.packet import NeedRekeyException
from paramiko.pkey import UnknownKeyType
from paramiko.ssh_exception import (
    CouldNotCanonicalize,
    MessageOrderError,
    NoValidConnectionsError,
    ProxyCommandFailure,
    UnableToAuthenticate,
)

from slurmgen.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectionFailed,
    HostKeyError,
    SlurmgenError,
    TransferFailed,
)

_REACH = "Check the host name and your network (is a VPN needed?); `ssh {alias}` should work first."
_LOGIN = "Check your user name and key: `ssh {alias}` should work first."
_AGAIN = "Try again; if it happens again, see whether `ssh {alias}` works."

ERRORS: dict[type[Exception], tuple[type[SlurmgenError], str, str]] = {
    paramiko.BadHostKeyException: (HostKeyError, "{alias} showed a host key that is not the known one", _LOGIN),
    InvalidHostKey: (HostKeyError, "known_hosts has a line that cannot be read", _LOGIN),
    paramiko.AuthenticationException: (AuthenticationFailed, "{alias} did not let {user} in", _LOGIN),
    paramiko.BadAuthenticationType: (AuthenticationFailed, "{alias} did not let {user} in", _LOGIN),
    paramiko.PasswordRequiredException: (AuthenticationFailed, "a key needs its passphrase", _LOGIN),
    paramiko.ssh_exception.PartialAuthentication: (AuthenticationFailed, "{alias} wants more proof of {user}", _LOGIN),
    UnableToAuthenticate: (AuthenticationFailed, "{alias} did not let {user} in", _LOGIN),
    AuthFailure: (AuthenticationFailed, "{alias} did not let {user} in", _LOGIN),
    UnknownKeyType: (AuthenticationFailed, "a key is of a kind that cannot be used", _LOGIN),
    BERException: (AuthenticationFailed, "a key file cannot be read", _LOGIN),
    paramiko.ConfigParseError: (ConfigError, "ssh_config cannot be read", "Mend it."),
    paramiko.SFTPError: (TransferFailed, "a file could not be sent to {alias}", _AGAIN),
    CouldNotCanonicalize: (ConnectionFailed, "no full name was found for {alias}", _REACH),
    paramiko.ChannelException: (ConnectionFailed, "{alias} refused to open a session", _AGAIN),
    paramiko.ssh_exception.IncompatiblePeer: (ConnectionFailed, "{alias} and we have no common algorithm", _REACH),
    MessageOrderError: (ConnectionFailed, "{alias} broke the protocol", _AGAIN),
    NeedRekeyException: (ConnectionFailed, "the connection to {alias} broke", _AGAIN),
    ProxyCommandFailure: (ConnectionFailed, "the ProxyCommand for {alias} failed", _REACH),
    NoValidConnectionsError: (ConnectionFailed, "cannot connect to {alias} at {host} port {port}", _REACH),
    paramiko.SSHException: (ConnectionFailed, "the connection to {alias} broke", _AGAIN),
    socket.gaierror: (ConnectionFailed, "the name {host} is not known to the network", _REACH),
    PipeTimeout: (ConnectionFailed, "{alias} did not answer in time", _REACH),
    TimeoutError: (ConnectionFailed, "{alias} did not answer in time", _REACH),
    EOFError: (ConnectionFailed, "the connection to {alias} broke", _AGAIN),
    ConnectionError: (ConnectionFailed, "cannot connect to {alias} at {host} port {port}", _REACH),
    OSError: (ConnectionFailed, "cannot connect to {alias} at {host} port {port}", _REACH),
}
"For each foreign error ours, the fact and what to do next."


@contextmanager
def translated(**names: object) -> Iterator[None]:
    """Raise our error for a foreign one; the names are alias, host, port and user."""
    try:
        yield
    except tuple(ERRORS) as error:
        kind = next(kind for kind in type(error).__mro__ if kind in ERRORS)
        ours, fact, hint = ERRORS[kind]
        why = str(error).rstrip(".")
        raise ours(f"{fact.format(**names)}{f': {why}' if why else ''}", hint.format(**names)) from error
