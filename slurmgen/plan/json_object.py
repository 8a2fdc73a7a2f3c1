"""The plan as JSON types, for `explain --json` and Python."""

from slurmgen.plan.model import Plan
from slurmgen.plan.sweep import described


def as_dict(plan: Plan) -> dict[str, object]:
    """The plan as `explain --json` prints it; every value is a JSON type."""
    numbers = (
        "site framework name nodes gpus_per_node ntasks_per_node procs_per_task cpus_per_task world_size "
        "mem time requeue segments"
    ).split()
    why = plan.why
    return {key: getattr(plan, key) for key in numbers} | {
        "gpu_type": plan.place.gpu_type,
        "partition": ",".join(plan.place.partitions) or None,
        "qos": plan.place.qos,
        "account": plan.account,
        "container": plan.setup.image or None,
        "python_env": plan.setup.python_env,
        "modules": list(plan.setup.modules),
        "rendezvous": plan.rendezvous.host if plan.rendezvous else None,
        "gpu_hours": round(plan.gpu_hours, 2),
        "charge": plan.charge,
        "directives": dict(plan.directives),
        "env": plan.env,
        "secrets": list(plan.request.secrets or ()),
        "task_env": {variable.name: variable.value for variable in plan.step.variables},
        "notes": plan.notes,
        "launch": _joined(plan.step.lines),
        "script": plan.script,
        "program": " ".join(plan.ranks.program.words),
        "preflight": _joined(plan.preflight),
        "on_bad_node": (plan.request.on_bad_node or "stop") if plan.preflight else None,
        "requeue_signal": f"{plan.notice.by}@{plan.notice.lead}" if plan.notice else None,
        "sweep": described(plan.sweep) if plan.sweep else None,
        "stage": [*(plan.request.stage or ()), *(plan.request.stage_archives or ())],
        "before_login": list(plan.request.before_login or ()),
        "before": list(plan.request.before or ()),
        "then": [" ".join(_joined(one.step.lines)) for one in plan.then],
        "after": list(plan.request.after or ()),
        "output": plan.output,
        "command": plan.command,
        "cited": _cited(plan),
        "reasons": {key: reason.text for key, reason in why.items()},
        "sources": {key: reason.source for key, reason in why.items()},
    }


def _cited(plan: Plan) -> dict[str, str]:
    """The sources that the reasons cite, by name."""
    names = {
        name for reason in plan.why.values() for name in plan.profile.sources if f"[{name}]" in reason.text
    }
    return {name: str(plan.profile.sources[name]) for name in plan.profile.sources if name in names}


def _joined(lines: tuple[tuple[str, ...], ...]) -> list[str]:
    return [" ".join(words) for words in lines]
