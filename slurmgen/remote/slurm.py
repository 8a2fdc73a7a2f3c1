"""Slurm over there: its commands run with a clean environment, and what became of a job."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from slurmgen.errors import CommandFailed
from slurmgen.remote.transport import COMMAND_TIMEOUT, Completed, Transport
from slurmgen.slurm import commands, replies
from slurmgen.slurm.commands import JobId
from slurmgen.slurm.replies import JobState
from slurmgen.slurm.shell import visible

# Slurm's commands take options from variables too. From inside an allocation, or from a
# profile, they would change the job: a leaked SLURM_CPU_BIND slowed a fleet threefold
# (https://github.com/goodfire-ai/spd/pull/955). SLURM_CONF says where Slurm itself is, and SLURM_JWT is
# what lets a person in where munge does not. SLURM_CLUSTERS goes: which cluster a job is for stands in
# its script, and a job found on one cluster must be found there again.
CLEAN = (
    "for name in $(for part in SLURM SBATCH SQUEUE SACCT SCANCEL; do compgen -v ${part}_; done); do "
    'case $name in SLURM_CONF|SLURM_JWT) ;; *) unset "$name" ;; esac; done; exec "$@"'
)
_NOT_FOUND = 127

HINTS = {
    "Invalid account": "Name the account that is charged with --account.",
    "invalid partition": "Name one of the site's partitions with --partition; `sinfo` lists them.",
    "Invalid qos": "Name another with --qos, or none.",
    "node configuration is not available": "Ask for less, or for another --partition or --gpu-type.",
    "time limit": "Ask for a shorter --time, or for another --partition.",
    "Unable to contact slurm controller": "Slurm is down there; try again later.",
}
"What to do about a refusal, by words of it."


class NotInstalled(CommandFailed):
    """There is no such command over there."""


class Lookup(Struct, frozen=True):
    """One of the three places that may know a job."""

    ask: Callable[[JobId], list[str]]
    parse: Callable[[str], tuple[JobState, ...]]
    is_optional: bool = False
    "Whether a cluster may come without that command."


LOOKUPS = (
    Lookup(commands.squeue, replies.squeue),
    Lookup(commands.scontrol, replies.scontrol),
    Lookup(commands.sacct, replies.sacct, is_optional=True),
)
"In the order of a job's life: while it lives, for minutes after, for years where there is accounting."

_UNKNOWN = ("Invalid job id", "accounting storage is disabled", "Slurm accounting storage")


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
            "Is it the login node of a Slurm cluster? A login shell there must have Slurm on its PATH.",
        )
    return completed


def refusal(argv: Sequence[str], completed: Completed) -> CommandFailed:
    """The error for a command that Slurm refused, in Slurm's words and with what to do."""
    said = replies.complaint(completed.err, argv[0])
    hint = next((hint for words, hint in HINTS.items() if words in said), "")
    return CommandFailed(f"{argv[0]}: {said}", hint)


def job_states(transport: Transport, job: JobId) -> tuple[JobState, ...]:
    """What Slurm knows of a job: one state, or one a task of an array; empty if it is gone.

    Raises:
        CommandFailed: Slurm did not answer, which does not mean that the job is gone.
    """
    answers = (_looked_up(transport, lookup, job) for lookup in LOOKUPS)
    return next(filter(None, answers), ())


def _looked_up(transport: Transport, lookup: Lookup, job: JobId) -> tuple[JobState, ...]:
    argv = lookup.ask(job)
    try:
        completed = call(transport, argv)
    except NotInstalled:
        if lookup.is_optional:
            return ()
        raise
    if completed.returncode and not any(words in completed.err for words in _UNKNOWN):
        raise refusal(argv, completed)
    return lookup.parse(completed.out)


def cancel(transport: Transport, job: JobId) -> None:
    """Cancel a job. Slurm says nothing of one that has ended or that it does not know.

    Raises:
        CommandFailed: Slurm refused.
    """
    argv = commands.scancel(job)
    completed = call(transport, argv)
    if completed.returncode:
        raise refusal(argv, completed)


def outcome(states: Sequence[JobState]) -> str:
    """One word for a job: of an array, the first state that is not COMPLETED; GONE if nobody knows it."""
    return next((one.state for one in states if one.state != "COMPLETED"), "COMPLETED" if states else "GONE")


def ended(states: Sequence[JobState]) -> bool:
    """Whether nothing more will come of a job."""
    return all(one.ended for one in states)


def describe(states: Sequence[JobState], job: JobId, where: str) -> list[str]:
    """What became of a job, in lines fit for a terminal: one, or one a task of an array."""
    if not states:
        return [
            f"job {job} is gone from the records of {where}: Slurm forgets a job some minutes after its end, "
            "and no accounting there knows it"
        ]
    return [visible(_line(one)) for one in states]


def _line(one: JobState) -> str:
    details = (
        f"({one.reason})" if one.reason and not one.ended else "",
        f"after {one.elapsed}" if one.elapsed else "",
        f"on {one.nodes}" if one.nodes else "",
        f"with exit code {one.exit_code}" if one.ended and one.exit_code else "",
    )
    return " ".join([f"job {one.id} ({one.name}) is {one.state}", *(word for word in details if word)])
