"""The terminal of this process, joined to a command in a channel of paramiko."""

import contextlib
import os
import selectors
import sys
from collections.abc import Callable

import paramiko

from slurmgen.remote.terminal import raw, size

_PART = 65536
_TURN = 0.05
"Seconds until it is tried again to send what the other side did not take."


def attach(channel: paramiko.Channel, execute: Callable[[], None]) -> int:
    """Run a command with the terminal of this process; returns its exit status, -1 if it has none.

    Args:
        channel: a new channel.
        execute: starts the command in it.
    """
    columns, lines = size()
    channel.get_pty(os.environ.get("TERM", "vt100"), columns, lines)
    execute()
    with raw(lambda: _resize(channel)):
        return _join(channel)


def _resize(channel: paramiko.Channel) -> None:
    with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
        channel.resize_pty(*size())


def _join(channel: paramiko.Channel) -> int:
    """Copy what arrives on either side until the command ends.

    Input that the remote program does not take yet is kept, so that its output is read meanwhile.
    """
    waiting = b""
    # Unlike epoll, select accepts a file.
    with selectors.SelectSelector() as selector:
        selector.register(channel, selectors.EVENT_READ)
        with contextlib.suppress(OSError, ValueError):  # stdin is closed
            selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        while True:
            for key, _ in selector.select(_TURN if waiting else None):
                if key.fileobj is channel:
                    if not _show(channel):
                        return channel.recv_exit_status()
                    continue
                selector.unregister(key.fd)
                waiting = os.read(key.fd, _PART)
                if not waiting:
                    channel.shutdown_write()
            if waiting and not (waiting := _send(channel, waiting)):
                selector.register(sys.stdin.fileno(), selectors.EVENT_READ)


def _send(channel: paramiko.Channel, part: bytes) -> bytes:
    """Send what the other side takes now; returns the rest."""
    while part and channel.send_ready():
        part = part[channel.send(part) :]
    return part


def _show(channel: paramiko.Channel) -> bool:
    """Write what has arrived; returns whether more may come."""
    channel.setblocking(False)
    ended = 0
    for receive, stream in ((channel.recv, sys.stdout), (channel.recv_stderr, sys.stderr)):
        with contextlib.suppress(TimeoutError):
            part = receive(_PART)
            ended += not part
            stream.buffer.write(part)
            stream.buffer.flush()
    return ended < 2
