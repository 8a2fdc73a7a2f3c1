"""Why each number of a plan is what it is: the words that `explain` shows."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurmgen.plan import Plan


def reasons(plan: "Plan") -> dict[str, str]:
    """A sentence for each key of `as_dict` that a person may doubt."""
    shape = plan.launcher
    each = "one task a GPU" if shape.task_per_gpu else "one task a node"
    product = f"{plan.nodes} x {plan.ntasks_per_node} x {plan.procs_per_task}"
    return {
        "framework": "the default" if plan.asked.framework is None else "as asked",
        "nodes": plan.layout.why,
        "gpus_per_node": plan.layout.why,
        "ntasks_per_node": f"{each}: {shape.why}",
        "procs_per_task": "each task is a rank" if shape.task_per_gpu else "the launcher starts a rank a GPU",
        "cpus_per_task": plan.cpus.why,
        "world_size": f"nodes x tasks a node x ranks a task, {product}: one a GPU",
        "mem": plan.memory.why,
        "time": plan.time_limit.why,
        "partition": _partition(plan),
        "account": "as asked" if plan.place.account else "none asked for; the site may have a default",
        "container": plan.setup.why_container,
        "python_env": plan.setup.why_python,
        "modules": "as asked" if plan.asked.modules is not None else f"from the profile of {plan.site}",
        "rendezvous": _rendezvous(plan),
    } | {f"env.{variable.name}": why for variable in plan.variables if (why := variable.comment)}


def _partition(plan: "Plan") -> str:
    if plan.asked.partition:
        return "as asked"
    return f"the default of {plan.site}" if plan.place.partition else "none; Slurm's default takes it"


def _rendezvous(plan: "Plan") -> str:
    if plan.rendezvous is None:
        return "the ranks need no address from the batch script"
    return "the first node, so that rank 0 is there; the port comes from the job id, below the ephemeral ones"
