"""Sessions: a host may open few of them on one connection, or one at a time (MaxSessions)."""

import time
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from slurmgen.errors import CommandFailed, RemoteError

PATIENCE = 1.0
"Seconds in which a host notices that the last session is over; after that it gets another connection."
_PAUSE = 0.01, 0.5
"Seconds between two attempts, the longer the more there were."

LinkT = TypeVar("LinkT")
SessionT = TypeVar("SessionT")


class Sessions(Generic[LinkT]):
    """The connection of a client, and others where the host opens no more sessions on it.

    Args:
        where: the host.
        link: the connection.
        another: makes another one without a prompt.
    """

    def __init__(self, where: str, link: LinkT, another: Callable[[], LinkT]) -> None:
        self._where, self._another = where, another
        self._links, self._may_add, self._adding = [link], True, Lock()

    def open(self, begin: Callable[[LinkT], SessionT | None], seconds: float) -> SessionT:
        """A new session: what `begin` returns for a connection, None if the host refuses it.

        If another login would need a prompt, this waits for the end of another session.

        Raises:
            CommandFailed: the host refused for that many seconds.
        """
        begun, pause = time.monotonic(), _PAUSE[0]
        while True:
            links = tuple(self._links)
            for link in links:
                if (session := begin(link)) is not None:
                    return session
            passed = time.monotonic() - begun
            if passed >= PATIENCE and self._has_another(len(links)):
                continue
            if passed >= seconds:
                raise CommandFailed(
                    f"{self._where} opens no further session for {seconds:g} seconds",
                    "Does it allow any (MaxSessions)? End other commands that use the connection.",
                )
            time.sleep(pause)
            pause = min(2 * pause, _PAUSE[1])

    def _has_another(self, count: int) -> bool:
        with self._adding:
            if len(self._links) == count and self._may_add:
                try:
                    self._links.append(self._another())
                except RemoteError:
                    self._may_add = False
            return len(self._links) > count
