"""What `slurmgen resubmit` proposes after a job ran out of memory or time, and who decides."""

from contextlib import nullcontext
from typing import TYPE_CHECKING, Self

import click

from slurmgen.cli.answers import is_terminal
from slurmgen.cli.job_command import typed
from slurmgen.cli.job_output import say
from slurmgen.cli.route_options import connect
from slurmgen.errors import RequestError, SlurmgenError
from slurmgen.request import Request
from slurmgen.slurm.sbatch_options import given

if TYPE_CHECKING:
    from slurmgen.jobs.proposal import Proposal
    from slurmgen.jobs.report import Report
    from slurmgen.jobs.resubmission import Resubmission
    from slurmgen.jobs.resubmit import Original
    from slurmgen.jobs.room import Room
    from slurmgen.remote.background import BackgroundLogin
    from slurmgen.remote.route import Route
    from slurmgen.remote.transport import Transport


class Connection:
    """The connection of a command that uses it more than once; it is made when it is first used."""

    def __init__(self, login: "BackgroundLogin", route: "Route") -> None:
        self._login = login
        self._route = route
        self._open: dict[Route, Transport] = {}

    def transport(self) -> "Transport":
        """The connection to the site of the new job; raises what the login raises."""
        return self.to(self._route)

    def to(self, route: "Route") -> "Transport":
        """The connection of a route, which may be another one."""
        if route not in self._open:
            self._open[route] = self._login.transport() if route == self._route else connect(route)
        return self._open[route]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for transport in self._open.values():
            transport.close()


def proposed(wanted: "Resubmission", connection: Connection, *, as_proposed: bool) -> Request | None:
    """The proposed memory or time, if the user wants it; None without a proposal.

    Args:
        wanted: the resubmission without a proposal.
        connection: to the site, where the end of the original is queried if the ledger does not have it.
        as_proposed: the user wants it.

    Raises:
        RequestError: the user has to decide and there is no terminal, or there is nothing to propose.
        SnapshotGone: the cluster no longer has the files that the job ran.
    """
    from slurmgen.jobs.proposal import lacked, proposal
    from slurmgen.jobs.resubmission import require_stored

    original = wanted.original
    report = _report(original, connection)
    end = report.main, report.why
    found = proposal(*end, _room(wanted, connection)) if lacked(*end) else None
    if found and found.request and _names(wanted.changes, found.request):
        found = None
    if found and found.request:
        if not wanted.present_files:
            require_stored(connection.to(original.job.route), original.record)
        return _decided(original.record.id, found, as_proposed=as_proposed)
    if found or as_proposed:
        fact = found.why if found else f"it is {report.state}"
        _nothing(f"nothing is proposed for job {original.record.id}: {fact}", as_proposed=as_proposed)
    return None


def _nothing(fact: str, *, as_proposed: bool) -> None:
    if as_proposed:
        raise RequestError(fact, "Leave out --as-proposed, or name what the job needs.")
    say(fact)


def _room(wanted: "Resubmission", connection: Connection) -> "Room":
    """What the new job would ask for without the proposal, and the most that it could ask for."""
    from slurmgen.jobs.resubmission import next_room

    return next_room(
        wanted.original, wanted.changes, wanted.site, lambda place: nullcontext(connection.to(place))
    )


def _names(changes: Request, wanted: Request) -> bool:
    """Whether the user has decided what would be proposed."""
    own = given(changes.sbatch)
    if wanted.time:
        return bool(changes.time or "time" in own)
    return bool(changes.mem or own.keys() & {"mem", "mem-per-cpu", "mem-per-gpu"})


def _report(original: "Original", connection: Connection) -> "Report":
    """How the original ended: from the ledger, else from its site."""
    from slurmgen.jobs.status import query_and_save, recall, unreached

    job = original.job
    if not job.needs_query and (known := recall(job, "")):
        return known
    try:
        (report,) = query_and_save(connection.to(job.route), [job])
    except SlurmgenError as error:
        say(f"how job {job.id} ended is not known: {error.fact}")
        return unreached(job, error)
    if report.states and not report.ended:
        say(f"warning: job {job.id} is {report.state}; this is a second one")
    return report


def _decided(job: str, found: "Proposal", *, as_proposed: bool) -> Request | None:
    """The proposal, if the option or the user at the terminal accepts it."""
    say(f"job {job}: {found.why}; proposed: {found.words} (an estimate)")
    if as_proposed:
        return found.request
    if is_terminal():
        return found.request if _accepted(found.words) else None
    accept, repeat = _command("--as-proposed"), _command("--unchanged")
    raise RequestError(
        f"the same request is likely to fail again: {found.why}",
        f"Use the proposal: `{accept}`; or repeat it as it was: `{repeat}`.",
    )


def _accepted(words: str) -> bool:
    """Whether the user at the terminal accepts a proposal, or wants the job as it was.

    Raises:
        Abort: the user wants neither.
    """
    say(f"y: submit it with {words}; n: submit it as it was; cancel: submit nothing")
    answers = click.Choice(["y", "n", "cancel"], case_sensitive=False)
    answer = click.prompt(f"Use {words}? [y/n/cancel]", type=answers, show_choices=False, err=True)
    if answer == "cancel":
        say("nothing was submitted")
        raise click.Abort
    return bool(answer == "y")


def _command(option: str) -> str:
    """This command line with an option."""
    return typed(click.get_current_context()).replace(" resubmit ", f" resubmit {option} ", 1)
