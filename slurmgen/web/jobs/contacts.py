"""When each site replied last, and why the states of its jobs may be old."""

from collections.abc import Callable
from datetime import datetime

from msgspec import Struct

from slurmgen.errors import SlurmgenError
from slurmgen.remote.route import Route

_LATE = "it has not replied to the last query so far"


class Problem(Struct, frozen=True):
    """Why the present states of the jobs of a site are not known."""

    site: str
    "Empty if it concerns all of them."
    fact: str
    hint: str = ""
    replied: float | None = None
    "When it replied last, in seconds since 1970; None if it has not since the server was started."

    @property
    def since(self) -> str:
        """When it replied last, in the time zone of this machine; empty if it has not."""
        if self.replied is None:
            return ""
        at = datetime.fromtimestamp(self.replied).astimezone()
        return at.strftime(
            "%H:%M:%S" if at.date() == datetime.now().astimezone().date() else "%Y-%m-%d %H:%M:%S"
        )


class Contacts:
    """What is known of each site. Not safe to use from several threads.

    Args:
        clock: seconds since 1970.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._replied: dict[Route, float] = {}
        self._problems: dict[Route | None, Problem] = {}

    def problem(self, route: Route) -> Problem | None:
        """Why the present states of its jobs are not known; None if they are."""
        return self._problems.get(route)

    def problems(self) -> list[Problem]:
        """Those of all sites, after what concerns all of them."""
        return sorted(self._problems.values(), key=lambda problem: problem.site)

    def reply(self, route: Route) -> bool:
        """Record that a site replied. Returns whether it had a problem before."""
        self._replied[route] = self._clock()
        return self._problems.pop(route, None) is not None

    def fail(self, route: Route, error: SlurmgenError) -> bool:
        """Record that a site was not reached. Returns whether that is new."""
        return self._put(route, error.fact, error.hint)

    def fail_all(self, error: SlurmgenError | None) -> bool:
        """Record why no job can be queried; None: jobs can be queried again. Returns whether that is new."""
        before = self._problems.pop(None, None)
        if error:
            self._problems[None] = Problem("", error.fact, error.hint)
        return self._problems.get(None) != before

    def wait(self, route: Route, asked: float) -> bool:
        """Record that a query of that time has no reply yet. Returns whether that is new."""
        if route in self._problems or self._replied.get(route, 0.0) >= asked:
            return False
        return self._put(route, _LATE, "")

    def _put(self, route: Route, fact: str, hint: str) -> bool:
        problem = Problem(route.short_place, fact, hint, self._replied.get(route))
        is_new = self._problems.get(route) != problem
        self._problems[route] = problem
        return is_new
