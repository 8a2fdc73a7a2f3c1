"""Logins to several sites: a connection that one step has used is used again by the next one."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from slurmgen.jobs.job import Connect
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Transport


class Logins:
    """Connections that wait for their next use; they are closed at the end of the block."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._idle: dict[Route, Transport] = {}

    @contextmanager
    def lend(self, route: Route) -> Iterator[Transport]:
        """A new connection, which is kept open after the block unless that fails."""
        transport = self._connect(route)
        try:
            yield transport
        except BaseException:
            transport.close()
            raise
        self._idle[route] = transport

    def take(self, route: Route) -> Transport:
        """The connection that was kept, or a new one; the caller closes it."""
        return self._idle.pop(route, None) or self._connect(route)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._idle:
            self._idle.popitem()[1].close()
