"""Why each number of a plan is what it is: the words that `explain` shows."""

from typing import TYPE_CHECKING

from slurmgen.plan.requeue import REASONS as REQUEUE_REASONS

if TYPE_CHECKING:
    from slurmgen.plan import Plan

AS_ASKED = "as asked"

_DIRECTIVES = {
    "job-name": "name",
    "ntasks-per-node": "ntasks_per_node",
    "cpus-per-task": "cpus_per_task",
    "gres": "gpus_per_node",
    "gpus": "gpus_per_node",
    "gpus-per-node": "gpus_per_node",
    "mem-per-gpu": "mem",
    "mem-per-cpu": "mem",
}
"The key of the number that a directive says, where it is not the directive's own name."

_REQUEST_FIELDS = {"cpus_per_task": "cpus_per_gpu"}
"The field of the request that decides a number, where it is not the number's own name."


def reasons(plan: "Plan") -> dict[str, str]:
    """A sentence for each key of `as_dict`, and for each directive and variable."""
    whys = _numbers(plan)
    for key in whys:
        field = _REQUEST_FIELDS.get(key, key)
        whys[key] = whys[key].replace(AS_ASKED, plan.sources.get(field, AS_ASKED))
    for option, _ in plan.directives:
        whys[f"directives.{option}"] = whys.get(_DIRECTIVES.get(option, option)) or _further(plan, option)
    for variable in plan.variables:
        whys[f"env.{variable.name}"] = variable.comment or _variable(plan, variable.name)
    return whys


def _numbers(plan: "Plan") -> dict[str, str]:
    shape = plan.launcher
    each = "one task per GPU" if shape.task_per_gpu else "one task per node"
    product = f"{plan.nodes} x {plan.ntasks_per_node} x {plan.procs_per_task}"
    return {
        "site": "the plan is for this one",
        "framework": "the default" if plan.asked.framework is None else AS_ASKED,
        "name": AS_ASKED if plan.asked.name else "the script's",
        "nodes": plan.layout.why,
        "gpus_per_node": plan.layout.why,
        "ntasks_per_node": f"{each}: {shape.why}",
        "procs_per_task": "each task is a rank"
        if shape.task_per_gpu
        else "the launcher starts one rank per GPU",
        "cpus_per_task": plan.cpus.why,
        "world_size": f"nodes x tasks per node x ranks per task, {product}: one per GPU",
        "mem": plan.memory.why,
        "time": plan.time_limit.why,
        "requeue": AS_ASKED if plan.asked.requeue is not None else "not asked for",
        "partition": _partition(plan),
        "account": AS_ASKED if plan.place.account else "none asked for; the site may have a default",
        "qos": AS_ASKED,
        "container": plan.setup.why_container,
        "python_env": plan.setup.why_python,
        "modules": plan.setup.why_modules,
        "rendezvous": _rendezvous(plan),
        "launch": shape.why,
        "script": AS_ASKED if plan.asked.script else "the bundled one, as nobody says",
        "output": "a log of its own for each job" + (", in the folder asked for" if plan.log_dir else ""),
        "command": "it gives the same script again",
    }


def _further(plan: "Plan", option: str) -> str:
    if option in plan.asked.sbatch:
        return AS_ASKED
    if plan.requeue and option in REQUEUE_REASONS:
        return REQUEUE_REASONS[option]
    return f"from the profile of {plan.site}"


def _variable(plan: "Plan", name: str) -> str:
    return AS_ASKED if name in plan.asked.env else f"from the profile of {plan.site}"


def _partition(plan: "Plan") -> str:
    if plan.asked.partition:
        return AS_ASKED
    return f"the default of {plan.site}" if plan.place.partition else "none; Slurm's default takes it"


def _rendezvous(plan: "Plan") -> str:
    if plan.rendezvous is None:
        return "the ranks need no address from the batch script"
    return "the first node, so that rank 0 is there; the port comes from the job id, below the ephemeral ones"
