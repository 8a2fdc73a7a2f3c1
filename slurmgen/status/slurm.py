"""Ask Slurm for the states of jobs, and believe only what is evidence."""

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct, structs

from slurmgen.errors import CommandFailed
from slurmgen.remote.transport import COMMAND_TIMEOUT, Completed, Transport, batches
from slurmgen.slurm import commands, replies
from slurmgen.slurm.commands import CLEAN, JobId
from slurmgen.slurm.replies import GONE, JobState

_NOT_FOUND = 127
UNKNOWN = "UNKNOWN"
"State of a job when the query failed."

NO_SLURM = "Is it the login node of a Slurm cluster? Slurm must be on the PATH of a login shell."
_CONFIGURATION = (
    "Slurm's commands do not find their cluster. Is the host a login node, and does SLURM_CONF, if it is "
    "set, name the right file? `sinfo` should work in a shell on that host."
)
HINTS = {
    "Invalid account": "Name an account that you may charge with --account.",
    "invalid partition": "Name one of the site's partitions with --partition; `sinfo` lists them.",
    "Invalid node name": "Name other nodes; if `slurmgen nodes` lists one that is gone, clear it there.",
    "Invalid qos": "Name another QoS with --qos, or leave it out.",
    "node configuration is not available": "Request less, or another --partition or --gpu-type.",
    "time limit": "Request a shorter --time, or another --partition.",
    "Unable to contact slurm controller": "The Slurm controller is down; try again later.",
    "establish a configuration source": _CONFIGURATION,
    "process configuration file": _CONFIGURATION,
    "control machine address": _CONFIGURATION,
}
"What to do about an error, by a part of its message."

_UNKNOWN_JOB = "Invalid job id"
_MOST_CODES = 200
"Jobs and tasks for whose exact exit code accounting is asked: its JSON takes kilobytes for each."
_BUSY = re.compile(
    "timed out|unable to contact|connect|communication|zero bytes|receive|endpoint|standby|temporar"
    "|rate limit|too many|busy|try again|not respond",
    re.IGNORECASE,
)
"What Slurm prints if the controller or the database does not reply now: it says nothing about jobs."
_PAUSES = (0.5, 1.0, 2.0)
"Seconds before a query is repeated."
_SLOW = 5.0
"Seconds after which a query that failed is not repeated: the command itself has tried for long."
QUERIES_UNTIL_GONE = 4
"Queries in a row after which a job that is waited for, and that Slurm does not list, is gone."
BETWEEN_REPLIES = 1.0
"Seconds before a reply is checked by a second one."
REPLIES_UNTIL_GONE = 3
"Replies in a row after which a job that Slurm does not list is not there."
_REPLIES = 5
"Replies about a job that has ended, at most; accounting mostly has all after two seconds."
_NO_ACCOUNTING = ("accounting storage is disabled", "Slurm accounting storage")


class Busy(CommandFailed):
    """Slurm did not reply to a query, and may reply to the next one."""


class NotInstalled(CommandFailed):
    """The remote host has no such command, or does not use it."""


def call(
    transport: Transport, argv: Sequence[str], *, data: bytes = b"", timeout: float = COMMAND_TIMEOUT
) -> Completed:
    """Run one of Slurm's commands as in a login shell of the user.

    Raises:
        NotInstalled: the host does not have the command.
    """
    completed = transport.run(as_logged_in(transport, argv), input=data, timeout=timeout)
    if completed.returncode == _NOT_FOUND:
        raise NotInstalled(f"there is no {argv[0]} on {transport.where}", NO_SLURM)
    return completed


def as_logged_in(transport: Transport, argv: Sequence[str]) -> list[str]:
    """A command in a login shell of the user, without the variables of Slurm."""
    return [*transport.shell, CLEAN, "slurmgen", *argv]


def refusal(argv: Sequence[str], completed: Completed) -> CommandFailed:
    """The error for a command that failed: Slurm's message and a hint."""
    message = replies.complaint(completed.err, argv[0])
    return CommandFailed(f"{argv[0]}: {message}", hint_for(message))


def hint_for(message: str) -> str:
    """What to do about an error message of Slurm; empty if there is no hint for it."""
    return next((hint for part, hint in HINTS.items() if part in message), "")


def job_states(transport: Transport, job: JobId) -> tuple[JobState, ...]:
    """The state of a job, or one state for each task of an array; empty if Slurm has no record of it.

    Raises:
        CommandFailed: the controller did not reply, which does not mean that the job is gone.
    """
    return query_states(transport, [job])[job]


def query_states(
    transport: Transport,
    jobs: Sequence[JobId],
    known: Mapping[JobId, tuple[JobState, ...]] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[JobId, tuple[JobState, ...]]:
    """The states of many jobs, with at most one squeue and one sacct for some thousands on each cluster.

    squeue reports the jobs that have not ended, because the accounting database may keep a record that was
    never closed. sacct reports the jobs that have ended; without accounting, scontrol does. Records of other
    jobs of the same ids do not count.

    That a job has ended needs two equal replies, a second apart, and that it is gone three: a controller that
    restarts may list nothing, and accounting receives the parts of a job one by one.

    Args:
        jobs: the ids, with the identities of the jobs that slurmgen submitted.
        known: what earlier queries reported of some jobs; it counts as the first reply.

    Raises:
        CommandFailed: the controller did not reply, which does not mean that the jobs are gone.
    """
    known = dict(known or {})
    queries = _Queries(transport, sleep)
    found = queries.of_all(jobs, known)
    new = [job for job in jobs if known.get(job) != found[job].states]
    doubtful = [job for job in new if found[job].is_doubtful(None, 1)]
    for number in range(2, _REPLIES + 1):
        if not doubtful:
            break
        sleep(BETWEEN_REPLIES)
        known |= {job: found[job].states for job in doubtful}
        before, found = found, found | queries.of_all(doubtful, known)
        doubtful = [job for job in doubtful if found[job].is_doubtful(before[job].states, number)]
    return {job: found[job].states for job in jobs}


class _Reply(Struct, frozen=True):
    """What the replies of one query have of one job."""

    states: tuple[JobState, ...]
    is_late: bool
    "Whether Slurm does not have the whole record yet."

    def is_doubtful(self, before: tuple[JobState, ...] | None, replies: int) -> bool:
        """Whether this reply says that the job is over, and the ones before do not suffice to believe it."""
        is_gone = all(state.state == GONE for state in self.states)
        is_early = is_gone and replies < REPLIES_UNTIL_GONE
        return ended(self.states) and (self.is_late or is_early or self.states != before)


class _Queries:
    """Asks Slurm through one connection, and again while it is too busy to reply."""

    def __init__(self, transport: Transport, sleep: Callable[[float], None]) -> None:
        self._transport, self._sleep = transport, sleep

    def of_all(
        self, jobs: Sequence[JobId], known: Mapping[JobId, tuple[JobState, ...]]
    ) -> dict[JobId, _Reply]:
        """What Slurm replies about jobs, from each cluster once."""
        clusters: dict[str, list[JobId]] = {}
        for job in jobs:
            clusters.setdefault(job.cluster, []).append(job)
        found: dict[JobId, _Reply] = {}
        for group in clusters.values():
            found |= self._of_cluster(group, known)
        return found

    def _of_cluster(
        self, jobs: list[JobId], known: Mapping[JobId, tuple[JobState, ...]]
    ) -> dict[JobId, _Reply]:
        listed = self._query(jobs, commands.squeue, replies.squeue)
        queued = {job: _own(job, states) for job, states in listed.items()}
        past = [job for job in jobs if not queued[job] or any(state.ended for state in queued[job])]
        recorded: dict[JobId, tuple[JobState, ...]] = {}
        error, has_accounting = "", True
        try:
            recorded = self._query(past, commands.sacct, replies.sacct)
        except NotInstalled:
            has_accounting = False
        except CommandFailed as failed:
            error = failed.fact
        accounted = {job: _last_runs(_own(job, recorded.get(job, ()))) for job in jobs}
        merged = {
            job: _with_known_codes(_merge(queued[job], accounted[job]), known.get(job, ())) for job in jobs
        }
        states = self._with_exit_codes(merged, {job for job in jobs if queued[job]})
        if not has_accounting:
            states = {
                job: tuple(structs.replace(state, unaccounted=state.ended) for state in one)
                for job, one in states.items()
            }
        return {
            job: _Reply(
                tuple(map(_compared, states[job]))
                or _without_record(job, listed[job], recorded.get(job, ()), error),
                (has_accounting and not error and _is_late(states[job], accounted[job]))
                or any(state.state == "FAILED" and not state.exit_code for state in states[job]),
            )
            for job in jobs
        }

    def _query(
        self,
        jobs: Sequence[JobId],
        command: Callable[..., list[str]],
        parse: Callable[[str], tuple[JobState, ...]],
    ) -> dict[JobId, tuple[JobState, ...]]:
        found: dict[JobId, tuple[JobState, ...]] = {}
        for some in _batches(jobs):
            found |= _of_jobs(some, parse(call_again(self._transport, command(*some), self._sleep).out))
        return found

    def _with_exit_codes(
        self, states_of: Mapping[JobId, tuple[JobState, ...]], listed: Collection[JobId]
    ) -> dict[JobId, tuple[JobState, ...]]:
        """The same states, with the exit codes that accounting has not, or may show 128 too small.

        scontrol has them while the controller remembers the job, as squeue does.
        """
        asked = [job for job, states in states_of.items() if job in listed and any(map(_lacks_code, states))]
        shown: dict[tuple[JobId, str, str], JobState] = {}
        for some in _batches(asked):
            with suppress(CommandFailed):
                for job, states in self._query(some, commands.scontrol, replies.scontrol).items():
                    shown |= {(job, state.id, state.state): state for state in _own(job, states)}
        found = {
            job: tuple(_with_shown_code(state, shown.get((job, state.id, state.state))) for state in states)
            for job, states in states_of.items()
        }
        exact: dict[JobId, list[str]] = {}
        pairs = ((job, state) for job, states in found.items() for state in states)
        doubtful = [structs.replace(job, number=state.id) for job, state in pairs if state.other_status]
        for some in _batches(doubtful[:_MOST_CODES]):
            with suppress(CommandFailed):  # they stay doubtful, and are reported as such
                recorded = replies.exit_codes(call(self._transport, commands.exit_codes(*some)).out)
                for job, states in _of_jobs(some, recorded).items():
                    exact[job] = [state.exit_code for state in _own(job, states)]
        return {
            job: tuple(
                state.with_exact(exact.get(structs.replace(job, number=state.id), ())) for state in states
            )
            for job, states in found.items()
        }


def _own(job: JobId, states: Sequence[JobState]) -> tuple[JobState, ...]:
    return tuple(state for state in states if replies.is_of(state, job))


def _last_runs(states: Sequence[JobState]) -> tuple[JobState, ...]:
    """Of the runs of a job that was requeued, the last; without records that are partial."""
    runs = sorted((state for state in states if not state.is_partial), key=lambda state: state.submitted)
    return tuple({state.id: state for state in runs}.values())


def _is_late(states: Sequence[JobState], accounted: Sequence[JobState]) -> bool:
    """Whether accounting does not have the end of a job, or of a task, that has ended."""
    known = {state.id for state in accounted if state.ended}
    return any(state.ended and state.id not in known for state in states)


def _without_record(
    job: JobId, listed: Sequence[JobState], recorded: Sequence[JobState], error: str
) -> tuple[JobState, ...]:
    """The state of a job that no whole record is of; empty if Slurm knows no job of that id.

    A record of another job in accounting may be older, so only squeue shows that the id was used again.
    """
    used = f"Slurm has given its id to another job, {listed[-1].name}".removesuffix(", ") if listed else ""
    if error:  # it may have ended or be gone: only accounting knows
        reason = f"{used}; how it ended is not known: {error}" if used else error
        return (JobState(id=job.number, state=UNKNOWN, reason=reason),)
    if used:
        return (JobState(id=job.number, state=GONE, reason=used),)
    if any(state.is_partial and replies.is_of(state, job) for state in recorded):
        return (JobState(id=job.number, state=UNKNOWN, reason="accounting has a part of its record only"),)
    return ()


def _compared(state: JobState) -> JobState:
    """The state without what only tells whose it is."""
    return structs.replace(state, submitted="", folder="", comment="")


def call_again(
    transport: Transport, argv: Sequence[str], sleep: Callable[[float], None] = time.sleep
) -> Completed:
    """`call` for a query, which is repeated if Slurm is too busy for it.

    Raises:
        Busy: it still is.
        NotInstalled: the host has no such command, or no accounting.
        CommandFailed: Slurm refused it.
    """
    for pause in (*_PAUSES, None):
        begun = time.monotonic()
        completed = call(transport, argv)
        if any(words in completed.err for words in _NO_ACCOUNTING):
            raise NotInstalled(f"{transport.where} has no accounting")
        if not completed.returncode or not _BUSY.search(completed.err):
            if completed.returncode and _UNKNOWN_JOB not in completed.err:
                raise refusal(argv, completed)
            return completed
        if pause is None or time.monotonic() - begun > _SLOW:  # it has waited long enough
            break
        sleep(pause)
    refused = refusal(argv, completed)
    raise Busy(refused.fact, refused.hint or "Try again in a minute.")


def _of_jobs(jobs: Sequence[JobId], states: Sequence[JobState]) -> dict[JobId, tuple[JobState, ...]]:
    """The records of each id. A task is looked up by its own id, without a search of its array."""
    of_array: dict[str, list[JobState]] = {}
    of_task: dict[str, list[JobState]] = {}
    for state in states:
        of_array.setdefault(state.id.partition("_")[0].partition("+")[0], []).append(state)
        of_task.setdefault(state.id, []).append(state)
    found = {}
    for job in jobs:
        candidates = of_task if {"_", "+"}.intersection(job.number) else of_array
        found[job] = tuple(state for state in candidates.get(job.number, ()) if job.covers(state.id))
    return found


def _batches(jobs: Sequence[JobId]) -> Iterator[list[JobId]]:
    rest = iter(jobs)
    for words in batches([job.number for job in jobs]):
        yield [next(rest) for _ in words]


def _merge(queued: tuple[JobState, ...], accounted: tuple[JobState, ...]) -> tuple[JobState, ...]:
    """The state of squeue for a job that has not ended, and the fuller one of sacct for a job that has.

    What is active for accounting alone is unknown: the database lags behind, the controller restarts, or it
    lost the job, whose record then stays open for ever. A later Slurm may have further states.
    """
    tasks = {state.id: state for state in accounted if state.state not in replies.ACTIVE}
    if not any(not state.ended for state in queued):
        tasks |= {state.id: _unlisted(state) for state in accounted if state.state in replies.ACTIVE}
    for state in sorted(queued, key=lambda state: state.state != "REVOKED"):  # runs on another cluster
        other = tasks.get(state.id)
        # They differ if the job was requeued, or if the database lags behind.
        if other is None or other.state != state.state:
            tasks[state.id] = state
        else:
            tasks[state.id] = structs.replace(other, reason=other.reason or state.reason)
    if any("_" in id_ for id_ in tasks):
        # While the database is receiving an array, it lists one task under the id of the whole array.
        tasks = {id_: state for id_, state in tasks.items() if "_" in id_}
    return tuple(sorted(tasks.values(), key=task_order))


def _unlisted(state: JobState) -> JobState:
    reason = f"accounting has it as {state.state}, and squeue does not list it; try again in a minute"
    return structs.replace(state, state=UNKNOWN, reason=reason)


def _with_known_codes(states: Sequence[JobState], known: Sequence[JobState]) -> tuple[JobState, ...]:
    """The states with the exact exit codes that an earlier query had of the same runs."""
    exact = {(one.id, one.state, one.start): one.exit_code for one in known if one.is_exact}
    return tuple(
        state.with_exact([exact[key]] if (key := (state.id, state.state, state.start)) in exact else ())
        for state in states
    )


def _lacks_code(state: JobState) -> bool:
    return state.ended and (not state.exit_code or state.is_exact is False)


def _with_shown_code(state: JobState, shown: JobState | None) -> JobState:
    """The state with the exit code of scontrol, which is exact."""
    if shown is None or not shown.exit_code or not _lacks_code(state):
        return state
    return structs.replace(state if state.exit_code else shown, exit_code=shown.exit_code, is_exact=True)


def task_order(state: JobState) -> tuple[int, str]:
    """The sort key of the tasks of an array."""
    number = re.split("[_+]", state.id)[-1]
    return (int(number) if re.fullmatch("[0-9]{1,18}", number) else 0, state.id)


def cancel(transport: Transport, *jobs: JobId) -> None:
    """Cancel jobs. Slurm reports no error for a job that has ended or that it does not know.

    Raises:
        CommandFailed: Slurm refused to.
    """
    for cluster in dict.fromkeys(job.cluster for job in jobs):
        for some in _batches([job for job in jobs if job.cluster == cluster]):
            call_again(transport, commands.scancel(*some))


def outcome(states: Sequence[JobState]) -> str:
    """The state of a whole job: of an array, that of a task still to end, else of one that is not COMPLETED.

    GONE if there are no states.
    """
    all_states = [state.state for state in states]
    active = [state.state for state in states if not state.ended]
    running = [state for state in active if state not in replies.WAITING]
    return next(
        (state for state in (*running, *active, *all_states) if state != "COMPLETED"),
        "COMPLETED" if states else GONE,
    )


def ended(states: Sequence[JobState]) -> bool:
    """Whether the job will not run any more."""
    return all(state.ended for state in states)
