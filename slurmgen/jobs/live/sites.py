"""Connections to several sites that stay open, for queries that are repeated."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from slurmgen.errors import RemoteError, SlurmgenError
from slurmgen.jobs.job import Job, group_by_route
from slurmgen.jobs.report import Report
from slurmgen.jobs.status import query_site, unreached
from slurmgen.remote.route import Route
from slurmgen.remote.transport import Transport

Connect = Callable[[Route, bool], Transport]
"Opens a connection; the second argument says whether the terminal may prompt."


class Sites:
    """The connections, one for each route; closed with the block."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._open: dict[Route, Transport] = {}
        self._tried: set[Route] = set()

    def transport(self, route: Route) -> Transport:
        """The connection to a site, opened if it is not. Only the first login may prompt.

        Raises:
            SlurmgenError: the site is not reached.
        """
        if route not in self._open:
            is_first = route not in self._tried
            self._tried.add(route)
            self._open[route] = self._connect(route, is_first)
        return self._open[route]

    def drop(self, route: Route) -> None:
        """Close a connection that broke."""
        if transport := self._open.pop(route, None):
            transport.close()

    def query(self, jobs: Sequence[Job]) -> list[Report]:
        """The reports of jobs, in their order; those of a site that is not reached say so."""
        reports: dict[Job, Report] = {}
        for route, group in group_by_route(jobs).items():
            reports |= {report.job: report for report in self._query(route, group)}
        return [reports[job] for job in jobs]

    def _query(self, route: Route, group: Sequence[Job]) -> list[Report]:
        try:
            return query_site(self.transport(route), group)
        except SlurmgenError as error:
            if isinstance(error, RemoteError):
                self.drop(route)
            return [unreached(job, error) for job in group]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for route in list(self._open):
            self.drop(route)
