"""Submit a job to several sites, let the one that starts first run the program, and cancel the others.

Each job waits for its gate (`slurmgen.plan.gate`), so that a job that starts runs nothing yet. The order of
the steps is what makes it safe, wherever a client is killed:

1. The ledger gets the race with an entry for each site; each entry becomes one job, exactly once.
2. The first job that runs is chosen in the ledger.
3. Its gate is opened. If that is closed, because the job has ended, the choice is taken back.
4. The others are cancelled. Their gates are never opened, whether that succeeds or not.
5. The race is over: the same command starts a new one.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from queue import SimpleQueue

from msgspec import Struct

from slurmgen.errors import CommandFailed, Interrupted, RemoteError, SlurmgenError, TwinError
from slurmgen.jobs.cancel import cancel_jobs
from slurmgen.jobs.forget import settle
from slurmgen.jobs.gate import close_gate, open_gate
from slurmgen.jobs.job import Connect, Job
from slurmgen.jobs.ledger import Record
from slurmgen.jobs.prepare import Prepared
from slurmgen.jobs.races import Race, Races
from slurmgen.jobs.report import Report
from slurmgen.jobs.runner import Runner, Say, pauses
from slurmgen.jobs.status import save_final_states
from slurmgen.jobs.submission import Observer, submission
from slurmgen.plan.gate import GATE_SECONDS
from slurmgen.remote.route import Route
from slurmgen.text import counted, listed

_AGAIN = "The same command continues; until then, none of its jobs runs the program."


class Entrant(Struct, frozen=True):
    """One site of a race."""

    entry: Record
    route: Route
    prepare: Callable[[], tuple[Prepared, Observer]]
    "The submission and its observer; only called if it is not known whether the entry has a job."


class Loser(Struct, frozen=True, kw_only=True):
    """A job that does not run the program."""

    site: str
    id: str
    "Empty if it is not known whether there is a job."
    cancelled: bool
    "Whether it has ended, or Slurm was asked to cancel it."


class Won(Struct, frozen=True):
    """The job that runs the program."""

    runner: Runner
    losers: tuple[Loser, ...]


@contextmanager
def run(
    race: Race, entrants: Sequence[Entrant], connect: Connect, say: Say, announce: Callable[[Won], None]
) -> Iterator[Won]:
    """Run a race to its end; the connection to the winner stays open within the block.

    Args:
        race: of `Races.enter`.
        entrants: its sites.
        connect: connects to one without a prompt.
        say: receives what happens, line by line.
        announce: is called with the result before the race is over: what it prints is not lost.

    Raises:
        CommandFailed: no site took the job, or no job ran the program.
        Unresolved: no site is known to have taken the job.
        Interrupted: ^C came before a job was chosen.
    """
    races = Races()
    with ExitStack() as stack:
        runners = _entered(races, race, entrants, connect, say, stack)
        for runner in runners:
            stack.callback(runner.end)
        try:
            winner = _winner(races, races.current(race), runners, say)
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted while jobs wait at {_sites(runners)}", _hint(race)) from None
        say(f"{winner.name} runs the program")
        losers = _cancelled(races, race, winner, runners, entrants, connect, say)
        won = Won(winner, losers)
        announce(won)
        races.finish(race)
        yield won


def _hint(race: Race) -> str:
    return f"{_AGAIN} `slurmgen cancel {race.key}` cancels them."


def _sites(runners: Sequence[Runner]) -> str:
    return listed([runner.record.site for runner in runners])


def _entered(
    races: Races, race: Race, entrants: Sequence[Entrant], connect: Connect, say: Say, stack: ExitStack
) -> list[Runner]:
    """The jobs of all sites that take one."""
    runners, errors = list[Runner](), list[SlurmgenError]()
    for one in entrants:
        try:
            runners.append(_runner(one, connect, say, stack))
        except Interrupted:
            raise
        except (RemoteError, TwinError) as error:
            say(f"without {one.route.site}: {error}")
            errors.append(error)
    if not runners:
        if any(entry.pending for entry in races.entries(race)):
            raise errors[-1]
        races.finish(race)
        reasons = "; ".join(
            f"{one.route.site}: {error.fact}" for one, error in zip(entrants, errors, strict=True)
        )
        raise CommandFailed(f"no site took the job: {reasons}", "`slurmgen where` compares them.")
    return runners


def _runner(one: Entrant, connect: Connect, say: Say, stack: ExitStack) -> Runner:
    """The job of one site, which is submitted if it was not."""
    if not one.entry.pending:
        return Runner(one.entry, one.route, connect, say)
    prepared, observer = one.prepare()
    submitting = submission(prepared, lambda: connect(one.route), observer=observer, entry=one.entry)
    outcome = stack.enter_context(submitting)
    say(f"job {outcome.record.id} waits at {one.route.site}; its folder is {outcome.record.folder}")
    return Runner(outcome.record, one.route, connect, say, outcome.transport)


def _winner(races: Races, race: Race, runners: Sequence[Runner], say: Say) -> Runner:
    """The job whose gate was opened."""
    by_key = {runner.record.key: runner for runner in runners}
    left, last = dict(by_key), None
    replies = SimpleQueue[tuple[Runner, Report]]()
    while race.chosen or left:
        if not race.chosen:
            race, last = _next(races, race, left, replies, say)
            continue
        if race.chosen not in by_key:
            raise CommandFailed("the site of the chosen job was not reached", _hint(race))
        if _is_opened(by_key[race.chosen], last):
            return by_key[race.chosen]
        say(f"{by_key[race.chosen].name} has ended before its gate was opened, and is out of the race")
        left.pop(race.chosen, None)
        race, last = races.take_back(race), None
    races.finish(race)
    raise CommandFailed(
        f"no job of {counted(len(runners), 'site')} has run the program",
        "`slurmgen status` shows how each has ended; the same command submits new ones.",
    )


def _next(
    races: Races,
    race: Race,
    left: dict[str, Runner],
    replies: "SimpleQueue[tuple[Runner, Report]]",
    say: Say,
) -> tuple[Race, Report]:
    """Wait for the next report; the race after it. A job that has ended is removed from `left`."""
    for one in left.values():
        one.watch(replies)
    runner, report = replies.get()
    key = runner.record.key
    is_start = key in left and any(state.state == "RUNNING" for state in report.states)
    race = races.choose(race, key) if is_start else races.current(race)
    if race.over and not race.chosen:
        raise CommandFailed(
            f"another command has ended the race {race.key}", "`slurmgen status` shows its jobs."
        )
    if report.ended and not race.chosen and key in left:
        left.pop(key).rest()
        save_final_states([report])
        say(f"{runner.name} is {report.state} without having run the program")
    return race, report


def _is_opened(runner: Runner, report: Report | None) -> bool:
    """Open the gate of the chosen job, or close it if the job has ended; whether it is open.

    It is tried until the site replies: while that is not known, no other job may be chosen.

    Args:
        runner: the chosen job.
        report: its state, if that was queried just now.
    """
    runner.rest()
    report = report if report and report.job == runner.job else None
    for pause in pauses():
        report = report or runner.report()
        is_open = _set_gate(runner, report) if report else None
        if is_open is not None:
            return is_open
        report = None
        time.sleep(pause)
    raise AssertionError  # the pauses do not end


def _set_gate(runner: Runner, report: Report) -> bool | None:
    """Whether the gate of a job in that state is open now; None if its site does not reply."""
    folder = runner.record.folder
    if report.ended:
        closed = runner.tried(lambda transport: close_gate(transport, folder))
        return None if closed is None else not closed
    return runner.tried(lambda transport: open_gate(transport, folder))


def _cancelled(
    races: Races,
    race: Race,
    winner: Runner,
    runners: Sequence[Runner],
    entrants: Sequence[Entrant],
    connect: Connect,
    say: Say,
) -> tuple[Loser, ...]:
    """Cancel the other jobs, also those of entries of which it was not known whether they have one."""
    losers = [_stopped(runner, say) for runner in runners if runner is not winner]
    known = {runner.record.key: runner.record for runner in runners}
    routes = {one.entry.key: one.route for one in entrants}
    pending = [entry for entry in races.entries(race) if entry.pending]
    # The job of such an entry is known, also that of the winner, but it could not be recorded before.
    races.settle_all([known[entry.key] for entry in pending if entry.key in known])
    unsettled = [entry for entry in pending if entry.key in routes and entry.key not in known]
    given_up = (_given_up(races, entry, routes[entry.key], connect, say) for entry in unsettled)
    return (*losers, *filter(None, given_up))


def _stopped(runner: Runner, say: Say) -> Loser:
    """Cancel the job of a loser."""
    id_, site = runner.record.id, runner.record.site
    reports = (_cancel(runner, say) or _cancel(runner, say)) if runner.rest() else None
    if reports is None:
        say(
            f"{runner.name} was not cancelled: once it starts, it ends after {GATE_SECONDS // 60} minutes "
            f"without running the program; `slurmgen cancel {id_} --site {site}` cancels it"
        )
    save_final_states(reports or [])
    return Loser(site=site, id=id_, cancelled=reports is not None)


def _cancel(runner: Runner, say: Say) -> list[Report] | None:
    return runner.tried(lambda transport: cancel_jobs(transport, [runner.job], say))


def _given_up(races: Races, entry: Record, route: Route, connect: Connect, say: Say) -> Loser | None:
    """Close the key of an entry, or cancel the job that it has; None if there is no job."""
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
    return Loser(site=route.site, id=record.id, cancelled=True) if record else None
