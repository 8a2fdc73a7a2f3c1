"""Submit a job: one sequence for the API, the commands and the page."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from msgspec import Struct

from slurmgen.config.project import needs
from slurmgen.errors import RequestError
from slurmgen.job_spec import JobSpec
from slurmgen.ledger.places import Confirm, route_of
from slurmgen.plan import Plan
from slurmgen.remote.route import Route
from slurmgen.slurm.units import is_of_task
from slurmgen.status.nodes import on_good_nodes, place_of
from slurmgen.submit.how import How
from slurmgen.submit.prepare import Prepared, prepare_job
from slurmgen.submit.submission import Login, Observer, Outcome, submissions


class Work(Protocol):
    """What can be submitted: a job, a group of jobs, a batch script, an earlier job, a check of nodes."""

    def route(self, how: How, ask: Confirm | None, *, connects: bool) -> Route:
        """The route to its site; `ask` and `connects` as for `route_of`."""

    def arrays(self, login: Login, route: Route, how: How, observer: Observer) -> list[Prepared]:
        """All that the submission needs; several for a group, or for a sweep of several arrays."""


class ProjectJob(Struct, frozen=True):
    """A job of a project."""

    spec: JobSpec
    plan: Plan | None = None
    "Instead of what the job resolves to; it may use nodes that are remembered as bad."

    def route(self, how: How, ask: Confirm | None, *, connects: bool) -> Route:
        """See Work."""
        return route_of_spec(self.spec, how, ask, connects=connects)

    def arrays(self, _login: Login, route: Route, how: How, observer: Observer) -> list[Prepared]:
        """See Work."""
        spec = self.spec if self.plan else on_good(self.spec, route, how, observer)
        plan = self.plan or spec.plan()
        observer.planned(is_array=is_of_task(plan.output))
        return prepare_job(spec, plan, route, how, after=spec.after(how.after))


class JobGroup(Struct, frozen=True):
    """The jobs of a project that are submitted together, with their dependencies."""

    specs: Sequence[JobSpec]

    def route(self, how: How, ask: Confirm | None, *, connects: bool) -> Route:
        """See Work."""
        return route_of_spec(self.specs[0], how, ask, connects=connects)

    def arrays(self, _login: Login, route: Route, how: How, observer: Observer) -> list[Prepared]:
        """See Work.

        Raises:
            RequestError: also if a job is a sweep, which may be several arrays.
        """
        specs = {str(one.name): on_good(one, route, how, observer) for one in self.specs}
        plans = {name: spec.plan() for name, spec in specs.items()}
        for name, plan in plans.items():
            if plan.sweep:
                raise RequestError(
                    f"--all does not submit a sweep, and {name} is one",
                    f"Submit it alone: slurmgen submit {name}.",
                )
        return [self._member(name, specs, plan, route, how) for name, plan in plans.items()]

    def _member(
        self, name: str, specs: Mapping[str, JobSpec], plan: Plan, route: Route, how: How
    ) -> Prepared:
        names = list(specs)
        within = tuple((names.index(one.job), one.type) for one in needs(self.specs[0].project, name))
        return prepare_job(specs[name], plan, route, how, group=(name, *names), needs=within)[0]


def route_of_spec(spec: JobSpec, how: How, ask: Confirm | None, *, connects: bool = True) -> Route:
    """The route to the site of a job; raises as `route_of`."""
    return route_of(spec.site, spec.personal, spec.project_dir, ask, connects=connects, **how.route_values)


def on_good(spec: JobSpec, route: Route, how: How, observer: Observer) -> JobSpec:
    """The job; bad nodes are excluded, unless the options allow them."""
    return on_good_nodes(spec, place_of(route), observer.excluded) if how.exclude_bad_nodes else spec


@contextmanager
def ready(
    work: Work, how: How, observer: Observer, *, connects: bool = True
) -> Iterator[tuple[list[Prepared], Login]]:
    """Make all that a submission needs; the login proceeds meanwhile.

    Args:
        connects: whether it is submitted, or tried; otherwise no host is contacted without need.

    Raises:
        RequestError: the site cannot run the job, or the project cannot be sent so.
        ConfigError: slurmgen.toml, personal.toml, a profile or a template is wrong.
    """
    route = work.route(how, observer.questions() if connects else None, connects=connects)
    with observer.login(route, starts=connects) as login:
        arrays = work.arrays(login, route, how, observer)
        observer.prepared(arrays)
        yield arrays, login


@contextmanager
def submit(work: Work, how: How, observer: Observer) -> Iterator[Sequence[Outcome]]:
    """Submit a job exactly once; the connection stays open within the block.

    If it fails, the same call finds the job, or submits it if there is none.

    Raises:
        RequestError, ConfigError: as `ready`; nothing was sent.
        RemoteError: as `submissions`.
    """
    with (
        ready(work, how, observer) as (arrays, login),
        submissions(arrays, login.transport, again=how.again, observer=observer) as outcomes,
    ):
        yield outcomes
