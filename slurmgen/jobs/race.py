"""Submit a job to several sites, let the one that starts first run the program, and cancel the others.

Each job waits for its gate (`slurmgen.plan.gate`), so that a job that starts runs nothing yet. The order of
the steps is what makes it safe, wherever a client is killed:

1. The ledger gets the race with an entry for each site; each entry becomes one job, exactly once. All are
   sent at the same time.
2. The first job that runs is chosen in the ledger, also while others are still being sent.
3. Its gate is opened. If that is closed, because the job has ended, the choice is taken back.
4. The others are cancelled, and the keys of those that have no job yet are closed. Their gates are never
   opened, whether that succeeds or not.
5. The race is over: the same command starts a new one.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from msgspec import Struct

from slurmgen.errors import Interrupted
from slurmgen.jobs.contest import Contest, hint
from slurmgen.jobs.job import Connect
from slurmgen.jobs.losers import Loser, cancel_losers
from slurmgen.jobs.races import Race, Races
from slurmgen.jobs.runner import Entrant, Runner, Say
from slurmgen.text import listed


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
        connect: connects to one without a prompt; several threads call it.
        say: receives what happens, line by line; several threads call it.
        announce: is called with the result before the race is over: what it prints is not lost.

    Raises:
        CommandFailed: no site took the job, no job ran the program, or another command cancelled the race.
        Unresolved: no site is known to have taken the job.
        Interrupted: ^C came before a job was chosen.
    """
    runners = [Runner(race, one, connect, say) for one in entrants]
    with ExitStack() as stack:
        for runner in runners:
            stack.callback(runner.end)
        try:
            winner = Contest(race, runners, say).winner()
        except KeyboardInterrupt:
            raise Interrupted(_interrupted(runners), hint(race)) from None
        say(f"{winner.name} runs the program")
        won = Won(winner, cancel_losers(race, winner, runners, connect, say))
        announce(won)
        Races().finish(race)
        yield won


def _interrupted(runners: Sequence[Runner]) -> str:
    sites = [runner.route.site for runner in runners if runner.has_job]
    return f"interrupted while jobs wait at {listed(sites)}" if sites else "interrupted before a job waited"
