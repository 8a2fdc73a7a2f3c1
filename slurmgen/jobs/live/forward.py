"""A port of this machine's loopback, forwarded to a port of a running job."""

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Protocol, Self

from slurmgen.errors import RemoteError, RequestError
from slurmgen.remote.duplex import Duplex, Socket

LOOPBACK = "127.0.0.1"
MOST = 64
"Connections at a time."


class Dial(Protocol):
    """Opens a connection to the port of the job."""

    def __call__(self) -> Duplex:
        """Open it.

        Raises:
            RemoteError: it is refused, or the connection to the login node broke.
        """


class Forwarding:
    """Accepts connections on loopback until the end of the block, and passes on the bytes of each."""

    def __init__(self, local: int, dial: Dial, report: Callable[[str], None]) -> None:
        self._dial = dial
        self._report = report
        self._free = threading.Semaphore(MOST)
        self._listener = _listening(local)
        self._open: set[Duplex] = set()

    @property
    def port(self) -> int:
        """The local port."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in list(self._open):
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            self._free.acquire()
            threading.Thread(target=self._serve, args=(Socket(connection),), daemon=True).start()

    def _serve(self, client: Socket) -> None:
        try:
            self._join(client, self._dial())
        except RemoteError as error:
            self._report(f"a connection failed: {error.fact}")
            client.close()
        finally:
            self._free.release()

    def _join(self, client: Duplex, server: Duplex) -> None:
        both = {client, server}
        self._open |= both
        sending = threading.Thread(target=_copy, args=(client, server), daemon=True)
        sending.start()
        _copy(server, client)
        for one in both:
            one.close()
        self._open -= both


def _copy(source: Duplex, target: Duplex) -> None:
    """Pass on what one side sends, until it sends no more or the other side is gone."""
    with contextlib.suppress(OSError, ValueError):
        while part := source.read():
            target.write(part)
    target.end()


def _listening(port: int) -> socket.socket:
    """A socket that listens on loopback.

    Raises:
        RequestError: the port is in use, or needs rights that the user does not have.
    """
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        raise RequestError(
            f"port {port} of this machine cannot be used: {error.strerror}",
            "Name another one after the port of the job, as in 6006:16006, or 6006:0 for any.",
        ) from None
