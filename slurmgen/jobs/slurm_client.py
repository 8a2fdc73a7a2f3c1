"""Slurm over there: its commands run with a clean environment, and what became of a job."""

import re
from collections.abc import Callable, Sequence

from msgspec import structs

from slurmgen.errors import CommandFailed
from slurmgen.remote.transport import COMMAND_TIMEOUT, Completed, Transport
from slurmgen.slurm import commands, replies
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import JobState
from slurmgen.text import visible

# Slurm's commands take options from variables too. From inside an allocation, or from a
# profile, they would change the job: a leaked SLURM_CPU_BIND slowed a fleet threefold
# (https://github.com/goodfire-ai/spd/pull/955). SLURM_CONF says where Slurm itself is, and SLURM_JWT is
# what lets a person in where munge does not. SLURM_CLUSTERS goes: which cluster a job is for stands in
# its script, and a job found on one cluster must be found there again.
CLEAN = (
    'for slurmgen_name in "${!SLURM_@}" "${!SBATCH_@}" "${!SQUEUE_@}" "${!SACCT_@}" "${!SCANCEL_@}"; do '
    'case $slurmgen_name in SLURM_CONF|SLURM_JWT) ;; *) unset "$slurmgen_name" ;; esac; done; exec "$@"'
)
_NOT_FOUND = 127
GONE = "GONE"
"A job's state where nobody knows it any more."
UNKNOWN = "UNKNOWN"
"A job's state where who might know did not answer."

NO_SLURM = "Is it the login node of a Slurm cluster? A login shell there must have Slurm on its PATH."
_CONFIGURATION = (
    "Slurm's commands there do not find their cluster. Is it a login node, and does SLURM_CONF, if it is "
    "set, name the right file? `sinfo` should work when typed there."
)
HINTS = {
    "Invalid account": "Name the account that is charged with --account.",
    "invalid partition": "Name one of the site's partitions with --partition; `sinfo` lists them.",
    "Invalid qos": "Name another with --qos, or none.",
    "node configuration is not available": "Ask for less, or for another --partition or --gpu-type.",
    "time limit": "Ask for a shorter --time, or for another --partition.",
    "Unable to contact slurm controller": "Slurm is down there; try again later.",
    "establish a configuration source": _CONFIGURATION,
    "process configuration file": _CONFIGURATION,
    "control machine address": _CONFIGURATION,
}
"What to do about a refusal, by words of it."


class NotInstalled(CommandFailed):
    """The remote host has no such command, or does not use it."""


_UNKNOWN = "Invalid job id"
_NO_ACCOUNTS = ("accounting storage is disabled", "Slurm accounting storage")


def call(
    transport: Transport, argv: Sequence[str], *, data: bytes = b"", timeout: float = COMMAND_TIMEOUT
) -> Completed:
    """Run one of Slurm's commands as the person would have it when typing there.

    Raises:
        NotInstalled: there is no such command over there.
    """
    words = [*transport.shell, CLEAN, "slurmgen", *argv]
    completed = transport.run(words, input=data, timeout=timeout)
    if completed.returncode == _NOT_FOUND:
        raise NotInstalled(
            f"there is no {argv[0]} on {transport.where}",
            NO_SLURM,
        )
    return completed


def refusal(argv: Sequence[str], completed: Completed) -> CommandFailed:
    """The error for a command that Slurm refused, in Slurm's words and with what to do."""
    said = replies.complaint(completed.err, argv[0])
    return CommandFailed(f"{argv[0]}: {said}", hint_for(said))


def hint_for(said: str) -> str:
    """What to do about what Slurm's commands complained of; nothing if that is not known."""
    return next((hint for words, hint in HINTS.items() if words in said), "")


def job_states(transport: Transport, job: JobId) -> tuple[JobState, ...]:
    """What Slurm knows of a job: one state, or one a task of an array; empty if it is gone.

    Raises:
        CommandFailed: the controller did not answer, which does not mean that the job is gone.
    """
    return states_of(transport, [job])[job]


def states_of(transport: Transport, jobs: Sequence[JobId]) -> dict[JobId, tuple[JobState, ...]]:
    """What Slurm knows of many jobs, with at most one squeue and one sacct for each cluster.

    squeue speaks for the controller, which knows each job that lives: no accounting record that was
    never closed makes a job run for ever. sacct tells of what ended, and scontrol where sacct cannot.

    Raises:
        CommandFailed: the controller did not answer, which does not mean that the jobs are gone.
    """
    clusters = {job.cluster: [one for one in jobs if one.cluster == job.cluster] for job in jobs}
    found = [each for some in clusters.values() for each in _on_one_cluster(transport, some).items()]
    return dict(found)


def _on_one_cluster(transport: Transport, jobs: list[JobId]) -> dict[JobId, tuple[JobState, ...]]:
    known = _asked(transport, jobs, commands.squeue(*jobs), replies.squeue)
    past = [job for job in jobs if not known[job] or any(one.ended for one in known[job])]
    is_accounted = True
    try:
        kept = _asked(transport, past, commands.sacct(*past), replies.sacct) if past else {}
    except NotInstalled:
        kept, is_accounted = {}, False  # a cluster may come without
    except CommandFailed as error:
        # Who might know is silent: that is neither gone nor running.
        silent = JobState(id="", state=UNKNOWN, reason=error.fact)
        kept = {job: (structs.replace(silent, id=job.number),) for job in past if not known[job]}
    found = _with_exit_codes(transport, {job: _merged(known[job], kept.get(job, ())) for job in jobs})
    return found if is_accounted else {job: tuple(map(_unaccounted, some)) for job, some in found.items()}


def _unaccounted(one: JobState) -> JobState:
    return structs.replace(one, unaccounted=one.ended)


def _asked(
    transport: Transport,
    jobs: Sequence[JobId],
    argv: list[str],
    parse: Callable[[str], tuple[JobState, ...]],
) -> dict[JobId, tuple[JobState, ...]]:
    """The answer of one command, job by job."""
    completed = call(transport, argv)
    if completed.returncode and any(words in completed.err for words in _NO_ACCOUNTS):
        raise NotInstalled(f"{transport.where} keeps no accounts")
    if completed.returncode and _UNKNOWN not in completed.err:
        raise refusal(argv, completed)
    answered: dict[str, list[JobState]] = {}
    for one in parse(completed.out):
        answered.setdefault(one.id.partition("_")[0].partition("+")[0], []).append(one)
    return {job: tuple(one for one in answered.get(_array(job), ()) if job.covers(one.id)) for job in jobs}


def _merged(living: tuple[JobState, ...], kept: tuple[JobState, ...]) -> tuple[JobState, ...]:
    """squeue's word for a job that lives, and sacct's fuller one for what has ended."""
    tasks = {one.id: one for one in kept if one.ended or one.state == UNKNOWN}
    for one in living:
        told = tasks.get(one.id)
        # Else it was requeued, or the database lags behind.
        if told is None or told.state != one.state:
            tasks[one.id] = one
        else:
            tasks[one.id] = structs.replace(told, reason=told.reason or one.reason)
    if any("_" in id_ for id_ in tasks):
        # While it takes in an array, the database has one task under the number of the whole.
        tasks = {id_: one for id_, one in tasks.items() if "_" in id_}
    return tuple(sorted(tasks.values(), key=by_task))


def _with_exit_codes(
    transport: Transport, known: dict[JobId, tuple[JobState, ...]]
) -> dict[JobId, tuple[JobState, ...]]:
    """The same, with what only scontrol tells where there is no accounting: how a job ended."""
    bare = [job for job, states in known.items() if any(one.ended and not one.exit_code for one in states)]
    if not bare:
        return known
    answer = call(transport, commands.scontrol(*bare)).out
    told = {(one.id, one.state): one for one in replies.scontrol(answer)}
    return {
        job: tuple(one if one.exit_code else told.get((one.id, one.state), one) for one in states)
        for job, states in known.items()
    }


def _array(job: JobId) -> str:
    return job.number.partition("_")[0]


def by_task(one: JobState) -> tuple[int, str]:
    """What the tasks of an array are sorted by."""
    number = re.split("[_+]", one.id)[-1]
    return (int(number) if re.fullmatch("[0-9]{1,18}", number) else 0, one.id)


def cancel(transport: Transport, *jobs: JobId) -> None:
    """Cancel jobs. Slurm says nothing of one that has ended or that it does not know.

    Raises:
        CommandFailed: Slurm refused.
    """
    for cluster in dict.fromkeys(job.cluster for job in jobs):
        argv = commands.scancel(*(job for job in jobs if job.cluster == cluster))
        completed = call(transport, argv)
        if completed.returncode:
            raise refusal(argv, completed)


def outcome(states: Sequence[JobState]) -> str:
    """One word for a job: of an array, the first state of one that lives, else of one that is not COMPLETED.

    GONE if nobody knows it.
    """
    words = [one.state for one in states]
    living = [one.state for one in states if not one.ended]
    running = [word for word in living if word != "PENDING"]
    return next(
        (word for word in (*running, *living, *words) if word != "COMPLETED"),
        "COMPLETED" if words else GONE,
    )


def ended(states: Sequence[JobState]) -> bool:
    """Whether nothing more will come of a job."""
    return all(one.ended for one in states)


def describe(states: Sequence[JobState], job: JobId, where: str) -> list[str]:
    """What became of a job, in lines fit for a terminal: one, or one a task of an array."""
    return [visible(line(one)) for one in states] or [gone(str(job), where)]


def gone(job: str, where: str) -> str:
    """What is to be said of a job that nobody knows."""
    return (
        f"job {job} is gone from the records of {where}: Slurm forgets a job some minutes after its end, "
        "and no accounting there knows it"
    )


def line(one: JobState) -> str:
    """What became of one job or task; not yet fit for a terminal."""
    details = (
        f"({one.reason})" if one.reason and not one.ended else "",
        f"after {one.elapsed}" if one.elapsed and one.state != "PENDING" else "",
        f"on {one.nodes}" if one.nodes else "",
        f"with exit code {one.exit_code}" if one.ended and one.exit_code else "",
    )
    name = f" ({one.name})" if one.name else ""
    return " ".join([f"job {one.id}{name} is {one.state}", *filter(None, details)])
