"""Why a job waits: Slurm's reasons in words (https://slurm.schedmd.com/job_reason_codes.html)."""

import re

_EXACT = {
    "Resources": "it is next, and waits for nodes to become free",
    "Priority": "jobs of higher priority come first",
    "None": "Slurm has not looked at it yet",
    "Dependency": "it waits for another job, as its --dependency says",
    "DependencyNeverSatisfied": "the job it depends on did not end as --dependency wants; cancel it",
    "BeginTime": "it waits for its time: its --begin, or the pause after a requeue",
    "JobHeldUser": "it is held; `scontrol release` lets it go",
    "JobHeldAdmin": "the site's staff hold it; ask them",
    "PartitionTimeLimit": "its --time is longer than the partition allows; cancel it and ask for less",
    "PartitionNodeLimit": "it wants more nodes than the partition allows; cancel it and ask for fewer",
    "PartitionDown": "its partition is down for now",
    "PartitionInactive": "its partition starts no jobs for now",
    "ReqNodeNotAvail": "a node it needs is down, reserved, or will be before the job could end; "
    "a shorter --time may fit before a maintenance",
    "Reservation": "it waits for its reservation to begin",
    "Licenses": "it waits for a licence",
    "NodeDown": "a node it needs is down",
    "BadConstraints": "no node is as it asks; cancel it and ask for what there is",
    "InvalidAccount": "its account may not be used; cancel it and name another --account",
    "InvalidQOS": "its QoS may not be used; cancel it and name another --qos",
    "AccountNotAllowed": "its account may not use this partition",
    "QOSNotAllowed": "its QoS may not use this partition",
    "JobArrayTaskLimit": "as many tasks of its array run as its % allows",
    "Prolog": "its nodes are being made ready",
    "Cleaning": "it is being put back into the queue after it ended",
    "launch_failed_requeued_held": "its nodes could not start it; it is held until `scontrol release`",
}
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
    """A reason in words; nothing if it says nothing to a person.

    >>> words("QOSMaxGRESPerUser")
    'its QoS has a limit on the GPUs of one user at a time, which is reached'
    """
    head = reason.partition(",")[0].strip()
    if head in _EXACT:
        return _EXACT[head]
    match = _LIMIT.fullmatch(head)
    if not match:
        return ""
    whose, scope, what, per = match.groups()
    thing = next((word for part, word in _WHAT.items() if part in what), what)
    together = "of all its jobs together" if scope == "Grp" else "of a job"
    minutes = " (counted in minutes)" if "Minutes" in head else ""
    of = _PER.get(per or "", together)
    return f"its {_WHOSE[whose]} has a limit on the {thing} {of}, which is reached{minutes}"
