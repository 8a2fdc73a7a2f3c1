"""Checks of the request, the project and Slurm: commands, controller, partition, and the job itself."""

import re

from slurmgen.doctor.visit import Visit
from slurmgen.errors import CommandFailed, RequestError, TransferFailed, did_you_mean
from slurmgen.slurm import commands
from slurmgen.status.slurm import HINTS, call, refusal
from slurmgen.submit.exactly_once import try_out
from slurmgen.text import counted

_VERSION = re.compile(r"^slurm\S{0,32} (\S{1,64})$", re.MULTILINE)
_UP = re.compile(r"^Slurmctld\(\w{1,32}\) at (\S{1,256}) is UP$", re.MULTILINE)
_PARTITION = re.compile(
    r"^([\w.@+-]{1,256})(\*?)\|(\w{1,32})\|(\d{1,9})/(\d{1,9})/(\d{1,9})/(\d{1,9})$", re.MULTILINE | re.ASCII
)
_DOWN = "Unable to contact slurm controller"


def request(visit: Visit) -> str:
    """Whether the request fits the site profile."""
    visit.planned = visit.plan()
    plan = visit.planned[0]
    gpus, nodes = counted(plan.ranks.layout.gpus, "GPU"), counted(plan.nodes, "node")
    return f"{plan.name} on {plan.site}: {plan.framework}, {gpus} on {nodes}"


def project(visit: Visit) -> str:
    """Whether the training script would be sent, and how much with it; nothing is sent."""
    assert visit.planned  # noqa: S101 (the check `request` passed)
    try:
        return visit.prepare(*visit.planned)
    except TransferFailed as error:  # a local file cannot be read
        raise RequestError(error.fact, error.hint) from None


def slurm(visit: Visit) -> str:
    """Whether a login shell finds the commands of Slurm."""
    argv = commands.version()
    completed = call(visit.transport, argv)
    versions = _VERSION.findall(completed.out)
    if not versions:
        error = refusal(argv, completed)
        raise CommandFailed(
            error.fact, error.hint or f"Log in and run `{' '.join(argv)}`; it must work there."
        )
    return f"Slurm {versions[-1]}"


def controller(visit: Visit) -> str:
    """Whether slurmctld responds."""
    argv = commands.ping()
    completed = call(visit.transport, argv)
    up = _UP.findall(completed.out)
    if not up:
        raise CommandFailed("slurmctld does not respond", HINTS[_DOWN])
    return f"slurmctld responds on {up[0]}"


def partition(visit: Visit) -> str:
    """Whether each partition of the request exists and is up."""
    assert visit.planned  # noqa: S101 (the check `request` passed)
    argv = commands.partitions()
    completed = call(visit.transport, argv)
    if completed.returncode:
        raise CommandFailed(refusal(argv, completed).fact, f"Log in and run `{argv[0]}`; it must work there.")
    rows = {row[0]: row for row in _PARTITION.findall(completed.out)}
    requested = visit.planned[0].place.partitions
    names = requested or [name for name, row in rows.items() if row[1]]
    if not names:
        raise CommandFailed(
            "Slurm has no default partition", f"Name one with --partition. {did_you_mean('', rows)}"
        )
    return "; ".join(_state(name, rows) for name in names)


def _state(name: str, rows: dict[str, tuple[str, ...]]) -> str:
    if name not in rows:
        raise CommandFailed(f"Slurm has no partition {name}", did_you_mean(name, rows))
    _, _, state, _, idle, _, total = rows[name]
    if state != "up":
        raise CommandFailed(f"partition {name} is {state}", "Wait, or name another with --partition.")
    return f"{name} is up, {idle} of {total} nodes are idle"


def accepted(visit: Visit) -> str:
    """Whether Slurm would accept the job, with its account and limits; no job is submitted."""
    assert visit.planned  # noqa: S101 (the check `request` passed)
    return try_out(visit.transport, visit.planned[1])
