"""What Slurm says: that it is there, that its partition is up, and that it would take the job."""

import re

from slurmgen.doctor.visit import Visit
from slurmgen.errors import CommandFailed, RequestError, TransferFailed, did_you_mean
from slurmgen.jobs.exactly_once import try_out
from slurmgen.jobs.slurm_client import HINTS, call, refusal
from slurmgen.slurm import commands
from slurmgen.text import counted

_VERSION = re.compile(r"^slurm\S{0,32} (\S{1,64})$", re.MULTILINE)
_UP = re.compile(r"^Slurmctld\(\w{1,32}\) at (\S{1,256}) is UP$", re.MULTILINE)
_PARTITION = re.compile(
    r"^([\w.@+-]{1,256})(\*?)\|(\w{1,32})\|(\d{1,9})/(\d{1,9})/(\d{1,9})/(\d{1,9})$", re.MULTILINE | re.ASCII
)
_DOWN = "Unable to contact slurm controller"


def request(visit: Visit) -> str:
    """Whether the site's profile and what is asked for fit together."""
    visit.planned = visit.plan()
    plan = visit.planned[0]
    gpus, nodes = counted(plan.world_size, "GPU"), counted(plan.nodes, "node")
    return f"{plan.name} on {plan.site}: {plan.framework}, {gpus} on {nodes}"


def project(visit: Visit) -> str:
    """Whether the training script would be sent, and how much goes with it; nothing is."""
    assert visit.planned  # noqa: S101 (the request came first)
    try:
        return visit.prepare(*visit.planned)
    except TransferFailed as error:  # a file cannot be read: nothing of the far side
        raise RequestError(error.fact, error.hint) from None


def slurm(visit: Visit) -> str:
    """Whether a login shell has Slurm's commands."""
    argv = commands.version()
    completed = call(visit.far, argv)
    found = _VERSION.findall(completed.out)
    if not found:
        error = refusal(argv, completed)
        raise CommandFailed(error.fact, error.hint or f"`{' '.join(argv)}` should work when typed there.")
    return f"Slurm {found[-1]}"


def controller(visit: Visit) -> str:
    """Whether slurmctld answers."""
    argv = commands.ping()
    completed = call(visit.far, argv)
    up = _UP.findall(completed.out)
    if not up:
        raise CommandFailed("Slurm's controller does not answer", HINTS[_DOWN])
    return f"slurmctld answers on {up[0]}"


def partition(visit: Visit) -> str:
    """Whether each partition of the request is there and up."""
    assert visit.planned  # noqa: S101 (the request came first)
    argv = commands.partitions()
    completed = call(visit.far, argv)
    if completed.returncode:
        raise CommandFailed(refusal(argv, completed).fact, f"`{argv[0]}` should work when typed there.")
    rows = {row[0]: row for row in _PARTITION.findall(completed.out)}
    asked = visit.planned[0].place.partitions
    names = asked or [name for name, row in rows.items() if row[1]]
    if not names:
        raise CommandFailed(
            "Slurm has no default partition", f"Name one with --partition. {did_you_mean('', rows)}"
        )
    return "; ".join(_state(name, rows) for name in names)


def _state(name: str, rows: dict[str, tuple[str, ...]]) -> str:
    if name not in rows:
        raise CommandFailed(f"there is no partition {name}", did_you_mean(name, rows))
    _, _, state, _, idle, _, total = rows[name]
    if state != "up":
        raise CommandFailed(f"partition {name} is {state}", "Wait, or name another with --partition.")
    return f"{name} is up, {idle} of {total} nodes are idle"


def accepted(visit: Visit) -> str:
    """Whether Slurm would take the job: account, limits and all. No job comes of it."""
    assert visit.planned  # noqa: S101 (the request came first)
    return try_out(visit.far, visit.planned[1])
