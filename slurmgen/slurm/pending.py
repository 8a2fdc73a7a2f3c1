"""Why a job waits, and what is free."""

import re
from collections.abc import Iterator

from msgspec import Struct

_WIDTHS = {"Partition": 128, "StateCompact": 24, "Gres": 512, "GresUsed": 512, "CPUsState": 48}

FREE_NODES_FORMAT = ",".join(f"{name}:{width}" for name, width in _WIDTHS.items())
"The value of sinfo's --Format: columns of fixed width, since its values have no separator."
_USABLE = ("idle", "mix", "alloc", "comp")
"Short states of nodes that take jobs; with a mark such as * or $ they do not."
_GPU = re.compile(r"(?:^|,)gpu(?::([A-Za-z_][\w.-]{0,63}))?:([0-9]{1,9})\b")
_CPUS = re.compile(r"[0-9]{1,9}/([0-9]{1,9})/[0-9]{1,9}/[0-9]{1,9}")


class Free(Struct, frozen=True):
    """What is free on the nodes of a partition now, as Slurm counts it."""

    gpus: int = 0
    gpus_of_type: dict[str, int] = {}
    "GPUs with a type, by its name in Slurm."
    cpus: int = 0

    def of_type(self, gpu_type: str | None) -> int:
        """The free GPUs of a type, or of all if Slurm does not name it."""
        return self.gpus_of_type.get(gpu_type or "", self.gpus)


def free_nodes(text: str) -> dict[str, Free]:
    """What is free in each partition, from the reply to sinfo with FORMAT."""
    found: dict[str, Free] = {}
    for row in map(_columns, text.splitlines()):
        name = row["Partition"].rstrip("*")
        if name and _takes_jobs(row["StateCompact"]):
            found[name] = _sum(found.get(name, Free()), _of_node(row))
        elif name:
            found.setdefault(name, Free())
    return found


def _columns(line: str) -> dict[str, str]:
    cells, start = {}, 0
    for name, width in _WIDTHS.items():
        cells[name], start = line[start : start + width].strip(), start + width
    return cells


def _takes_jobs(state: str) -> bool:
    return state.rstrip("+").lower() in _USABLE


def _of_node(row: dict[str, str]) -> Free:
    all_, used = dict(_gpus(row["Gres"])), dict(_gpus(row["GresUsed"]))
    left = {kind: max(0, count - used.get(kind, 0)) for kind, count in all_.items()}
    cpus = _CPUS.fullmatch(row["CPUsState"])
    named = {kind: count for kind, count in left.items() if kind}
    return Free(sum(left.values()), named, int(cpus[1]) if cpus else 0)


def _gpus(text: str) -> Iterator[tuple[str, int]]:
    """The type and the number of GPUs in a list such as `gpu:a100:4(S:0-1),nvme:1`."""
    counts: dict[str, int] = {}
    for match in _GPU.finditer(text):
        kind = match[1] or ""
        counts[kind] = counts.get(kind, 0) + int(match[2])
    yield from counts.items()


def _sum(one: Free, other: Free) -> Free:
    kinds = {*one.gpus_of_type, *other.gpus_of_type}
    of_type = {kind: one.gpus_of_type.get(kind, 0) + other.gpus_of_type.get(kind, 0) for kind in kinds}
    return Free(one.gpus + other.gpus, of_type, one.cpus + other.cpus)


_EXACT = {
    "Resources": "it is next, and waits for nodes to become free",
    "Priority": "jobs of higher priority come first",
    "None": "the scheduler has not considered it yet",
    "Dependency": "it waits for another job, as its --dependency says",
    "DependencyNeverSatisfied": "the job it depends on did not end as --dependency requires; cancel it",
    "BeginTime": "it waits for its start time: its --begin, or the delay after a requeue",
    "JobHeldUser": "it is held; `scontrol release` releases it",
    "JobHeldAdmin": "an administrator holds it; contact the site's support",
    "PartitionTimeLimit": "its --time is longer than the partition allows; cancel it and request less",
    "PartitionNodeLimit": "it requests more nodes than the partition allows; cancel it and request fewer",
    "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition starts no jobs at the moment",
    "ReqNodeNotAvail": "a node it needs is down, reserved, or will be before the job could end; "
    "a shorter --time may end before the maintenance",
    "Reservation": "it waits for its reservation to begin",
    "Licenses": "it waits for a licence",
    "NodeDown": "a node it needs is down",
    "BadConstraints": "no node that it does not exclude has what it requests; cancel it and request less",
    "InvalidAccount": "its account may not be used; cancel it and name another --account",
    "InvalidQOS": "its QoS may not be used; cancel it and name another --qos",
    "AccountNotAllowed": "its account may not use this partition",
    "QOSNotAllowed": "its QoS may not use this partition",
    "JobArrayTaskLimit": "another task of its array must end first; % limits how many run at a time",
    "Prolog": "its prolog is still running",
    "Cleaning": "it was requeued, and its last run is being cleaned up",
    "launch_failed_requeued_held": "a node could not start it; it is held until `scontrol release`",
    "job_requeued_in_held_state": "it was requeued, and is held; `scontrol release` releases it",
    "JobHoldMaxRequeue": "Slurm requeued it as often as the site allows; it is held until `scontrol release`",
}
HELD_BY_SLURM = frozenset({"launch_failed_requeued_held", "JobHoldMaxRequeue"})
"Why Slurm itself holds a job that it has requeued; its user may release it."
_WHOSE = {"Assoc": "account", "QOS": "QoS"}
_WHAT = {
    "GRES": "GPUs",
    "Cpu": "CPUs",
    "CPU": "CPUs",
    "Mem": "memory",
    "Memory": "memory",
    "Node": "nodes",
    "Billing": "billing units",
    "Jobs": "jobs",
    "Job": "jobs",
    "Submit": "jobs in the queue",
    "Wall": "time",
    "Usage": "budget",
}
_LIMIT = re.compile(
    r"(Assoc|QOS)(Grp|Max)(.+?)(?:(PerUser|PerAccount|PerJob|PerNode)?(?:Limit|Minutes|RunMinutes)?)"
)
_PER = {
    "PerUser": "of one user at a time",
    "PerAccount": "of one account at a time",
    "PerJob": "of one job",
    "PerNode": "of one node",
}


def reason_words(reason: str) -> str:
    """A reason in words; empty if there are none for it.

    >>> words("QOSMaxGRESPerUser")
    'its QoS has a limit on the GPUs of one user at a time, which is reached'
    """
    head = reason.partition(",")[0].strip().replace(" ", "_")  # squeue writes some with blanks
    if head in _EXACT:
        return _EXACT[head]
    if head.startswith("Reservation_") and head.endswith("_was_deleted"):
        return "its reservation was deleted; cancel it, and submit it without --reservation"
    match = _LIMIT.fullmatch(head)
    if not match:
        return ""
    whose, scope, what, per = match.groups()
    thing = next((word for part, word in _WHAT.items() if part in what), what)
    together = "of all its jobs together" if scope == "Grp" else "of a job"
    minutes = " (counted in minutes)" if "Minutes" in head else ""
    of = _PER.get(per or "", together)
    return f"its {_WHOSE[whose]} has a limit on the {thing} {of}, which is reached{minutes}"
