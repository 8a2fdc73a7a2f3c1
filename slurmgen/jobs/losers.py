"""The jobs of a race that do not run the program: they are cancelled, and what is still sent is given up."""

from collections.abc import Sequence

from msgspec import Struct

from slurmgen.errors import SlurmgenError
from slurmgen.jobs.cancel import cancel_jobs
from slurmgen.jobs.forget import settle
from slurmgen.jobs.job import Connect, Job
from slurmgen.jobs.ledger import Record
from slurmgen.jobs.races import Race, Races
from slurmgen.jobs.report import Report
from slurmgen.jobs.runner import Runner, Say
from slurmgen.jobs.status import save_final_states
from slurmgen.plan.gate import GATE_SECONDS


class Loser(Struct, frozen=True, kw_only=True):
    """A job that does not run the program."""

    site: str
    id: str
    "Empty if it is not known whether there is a job."
    cancelled: bool
    "Whether it has ended, or Slurm was asked to cancel it."


def cancel_losers(
    race: Race, winner: Runner, runners: Sequence[Runner], connect: Connect, say: Say
) -> tuple[Loser, ...]:
    """Cancel the other jobs, also those of which it is not known whether they exist."""
    others = [runner for runner in runners if runner is not winner]
    for runner in others:
        runner.stop()
    # What is still being sent may become a job at any time: it is given up by its key.
    at_rest = {runner.key: runner.rest() for runner in others}
    with_job = [runner for runner in others if runner.has_job and at_rest[runner.key]]
    losers = [_stopped(runner, say) for runner in with_job]
    races = Races()
    _record(races, race, (winner, *with_job))
    entries = {entry.key: entry for entry in races.entries(race)}
    unknown = [runner for runner in others if runner not in with_job and runner.key in entries]
    given_up = [_given_up(races, entries[runner.key], runner, connect, say) for runner in unknown]
    return (*losers, *filter(None, given_up))


def _record(races: Races, race: Race, runners: Sequence[Runner]) -> None:
    """Record the jobs that could not be recorded when they were submitted, also that of the winner."""
    pending = [entry.key for entry in races.entries(race) if entry.pending]
    races.settle_all([runner.record for runner in runners if runner.key in pending])


def _stopped(runner: Runner, say: Say) -> Loser:
    """Cancel the job of a loser."""
    id_, site = runner.record.id, runner.record.site
    reports = _cancel(runner, say) or _cancel(runner, say)
    if reports is None:
        say(
            f"{runner.name} was not cancelled: once it starts, it ends after {GATE_SECONDS // 60} minutes "
            f"without running the program; `slurmgen cancel {id_} --site {site}` cancels it"
        )
    save_final_states(reports or [])
    return Loser(site=site, id=id_, cancelled=reports is not None)


def _cancel(runner: Runner, say: Say) -> list[Report] | None:
    return runner.tried(lambda transport: cancel_jobs(transport, [runner.job], say))


def _given_up(races: Races, entry: Record, runner: Runner, connect: Connect, say: Say) -> Loser | None:
    """Close the key of an entry, or cancel the job that it has; None if there is no job."""
    route = runner.route
    try:
        with connect(route) as transport:
            if record := settle(transport, entry, races):
                cancel_jobs(transport, [Job.of(record, route)], say)
    except SlurmgenError as error:
        say(
            f"there may be a job at {route.site}, which would not run the program: {error.fact}; "
            f"`slurmgen forget {entry.key} --cancel` cancels it"
        )
        return Loser(site=route.site, id="", cancelled=False)
    if record is None:
        say(f"nothing was submitted at {route.site}")
        return None
    return Loser(site=route.site, id=record.id, cancelled=True)
