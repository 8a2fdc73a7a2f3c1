"""Slurm's reasons why a job is pending, in words (https://slurm.schedmd.com/job_reason_codes.html)."""

import re

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


def words(reason: str) -> str:
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
