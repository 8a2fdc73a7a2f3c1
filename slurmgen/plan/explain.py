"""Explain a plan: each number with its reason, as text and JSON."""

from slurmgen.launchers import Tasks
from slurmgen.plan import requeue
from slurmgen.plan.model import (
    DERIVED,
    PROFILE,
    Origin,
    Plan,
    Reason,
    Sweeping,
    default,
    derived,
    from_profile,
    origin_of,
)
from slurmgen.plan.placement import notes
from slurmgen.plan.requeue import FIELDS as MAIL
from slurmgen.plan.requeue import REASONS as REQUEUE_REASONS
from slurmgen.plan.requeue import SEGMENT_REASONS
from slurmgen.plan.resources import charge
from slurmgen.plan.staging import STAGED_DATA, is_staged
from slurmgen.plan.sweep import RUN_DIR, SLURMS_ARRAY_SIZE
from slurmgen.plan.variables import OWN
from slurmgen.request.model import PROGRAMS
from slurmgen.slurm.shell import EXPORT_ALL
from slurmgen.slurm.units import is_of_task

_SHOWN = 3
"Runs that are shown."


def _described(sweep: Sweeping) -> dict[str, object]:
    limit = sum(array.limit or 0 for array in sweep.arrays)
    values = {
        "runs": len(sweep.runs),
        "tasks": sweep.tasks,
        "arrays": len(sweep.arrays),
        "at_a_time": limit or None,
        "runs_per_gpu": sweep.per_task,
        "first": "\n".join(" ".join(row.words) for row in sweep.rows[:_SHOWN]),
    }
    return {key: value for key, value in values.items() if value is not None}


def _sweep_reasons(plan: Plan, origin: Origin) -> dict[str, Reason]:
    if plan.sweep is None:
        return {}
    size, several = plan.profile.max_array_size, len(plan.sweep.arrays) > 1
    most = f"MaxArraySize is {size}" if size else f"Slurm's default of MaxArraySize is {SLURMS_ARRAY_SIZE}"
    return {
        "runs": origin("sweep"),
        "tasks": derived(
            "each task of the array is one run" if plan.sweep.per_task == 1 else "runs share tasks"
        ),
        "arrays": derived(f"{most}{', so that the sweep is divided' if several else ''}"),
        "at_a_time": origin("sweep"),
        "runs_per_gpu": origin("sweep") if plan.sweep.per_task > 1 else default("each run has its own GPUs"),
        "first": derived("the arguments of the first runs; the script has all"),
    }


_DIRECTIVES = {
    "job-name": "name",
    "ntasks-per-node": "ntasks_per_node",
    "ntasks": "ntasks_per_node",
    "cpus-per-task": "cpus_per_task",
    "gres": "gpus_per_node",
    "gpus": "gpus_per_node",
    "gpus-per-node": "gpus_per_node",
    "mem-per-gpu": "mem",
    "mem-per-cpu": "mem",
}
"The key of the value of a directive, where it differs from the directive's name."
_EXPORT = f"; {EXPORT_ALL}: tasks get the environment of this script"
_SHAPES: dict[Tasks, tuple[str, str, str]] = {
    "task-per-gpu": ("one task per GPU", "each task is a rank", "one per GPU"),
    "rank-per-gpu": ("one task per node", "the launcher starts one rank per GPU", "one per GPU"),
    "process-per-node": ("one task per node", "one process uses the job's share of a node", "one per node"),
}
"By shape: the tasks, the ranks of a task, and those of the job."


def explain(plan: Plan) -> dict[str, Reason]:
    """A reason for each key of `as_dict`, and for each directive and variable."""
    origin = origin_of(plan.files)
    found = _numbers(plan) | _from_request(plan, origin)
    for option, value in plan.directives:
        is_of_others = option == "gres" and not value.startswith("gpu:")
        key = option if is_of_others else _DIRECTIVES.get(option, option)
        found[f"directives.{option}"] = found[key] if key in found else _further(plan, option, origin)
    for variable in plan.variables:
        found[f"env.{variable.name}"] = _variable(plan, variable.name, variable.comment, origin)
    found |= {f"sweep.{key}": text for key, text in _sweep_reasons(plan, origin).items()}
    for name in notes(plan):
        found[f"notes.{name}"] = _note(plan, name)
    for variable in plan.ranks.variables:
        ranks = f", for its {plan.procs_per_task} ranks together" if plan.procs_per_task > 1 else ""
        reason = _in_task(plan, variable.name, variable.comment)
        found[f"task_env.{variable.name}"] = reason.within(f"set in each task{ranks}: {{}}")
    return found


def _note(plan: Plan, name: str) -> Reason:
    if name == "time" and name not in plan.ranks.settings.notes:
        return derived("Slurm reads a number alone as minutes")
    if name == "threads":
        return derived(plan.ranks.launcher.why)
    if name in plan.ranks.settings.notes:
        return from_profile(plan.profile, f"when.{name}")
    key = {"internet": "internet", "preemption": "partitions"}.get(name)
    return from_profile(plan.profile, key) if key else derived("no list of the profile has it")


def _numbers(plan: Plan) -> dict[str, Reason]:
    shape = plan.ranks.launcher
    each, ranks, total = _SHAPES[shape.shape]
    product = f"{plan.nodes} x {plan.ntasks_per_node} x {plan.procs_per_task}"
    return {
        "site": derived("the site of the request, the project, or the default"),
        "nodes": plan.layout_reason,
        "gpus_per_node": plan.layout_reason,
        "ntasks_per_node": derived(f"{each}: {shape.why}")
        if plan.request.ntasks_per_node is None
        else origin_of(plan.files)("ntasks_per_node"),
        "procs_per_task": derived(ranks),
        "cpus_per_task": plan.ranks.cpus.why,
        "world_size": derived(f"nodes x tasks per node x ranks per task, {product}: {total}"),
        "mem": plan.memory.why,
        "time": plan.time_limit.why,
        "container": plan.setup.why_container,
        "python_env": plan.setup.why_python,
        "modules": plan.setup.why_modules,
        "rendezvous": derived(
            "the first node, where rank 0 runs; the port comes from the job id, below the ephemeral ports"
            if plan.rendezvous
            else "the ranks need no address from the batch script"
        ),
        "launch": derived(f"{shape.why}{_EXPORT if EXPORT_ALL in plan.step.lines[0] else ''}"),
        "gpu_hours": derived(
            f"GPUs x time limit{' x tasks' if plan.tasks > 1 else ''}: the most that the job can use"
        ),
        "charge": from_profile(plan.profile, "charge")
        if charge(plan)
        else default("the profile states no rate"),
        "command": derived("this command renders the same script again"),
    }


def _from_request(plan: Plan, origin: Origin) -> dict[str, Reason]:
    if_unset = {
        "framework": default(
            "the default" if plan.ranks.layout.gpus else "the default of a job without GPUs"
        ),
        "gpu_type": _gpu_type(plan),
        "name": derived("the name of the script, module or command"),
        "requeue": default(requeue.why_no_requeue(plan.request)),
        "partition": _chosen(plan, "partition")
        if plan.place.partitions
        else default("none; Slurm uses its default partition"),
        "account": default("none requested; the site may have a default"),
        "qos": _chosen(plan, "qos") if plan.place.qos else default("none requested"),
        "on_bad_node": default("the job ends"),
        "segments": default("one job"),
        "requeue_signal": default(f"what a script for {plan.framework} can handle"),
        "log_dir": default(""),
    }
    found = {
        field: reason if getattr(plan.request, field) is None else origin(field)
        for field, reason in if_unset.items()
    }
    logs = "one log per task of the array" if is_of_task(plan.output) else "one log per job"
    folder = f", in the folder {found['log_dir'].text}" if plan.log_dir else ""
    del found["log_dir"]
    if plan.framework == "srun" != plan.request.framework:
        cited = from_profile(plan.profile, "launch.ddp").text
        found["framework"] = Reason(PROFILE, f"ddp is one task per GPU, without torchrun, {cited}")
    if plan.account != plan.request.account:
        suffix = plan.ranks.settings.account_suffix
        found["account"] = found["account"].within(f"{{}}, with {suffix} from the profile of {plan.site}")
    return found | _program(plan, origin) | {"output": derived(f"{logs}{folder}")}


def _program(plan: Plan, origin: Origin) -> dict[str, Reason]:
    named = next((key for key in PROGRAMS if getattr(plan.request, key)), None)
    around = ("preflight", "before_login", "before", "then", "after")
    found = {key: origin(key) for key in around if getattr(plan.request, key)}
    if is_staged(plan.request):
        found["stage"] = origin("stage" if plan.request.stage else "stage_archives")
    program = origin(named) if named else default("the bundled script, because none is named")
    return found | {"program": program, "script": program}


def _gpu_type(plan: Plan) -> Reason:
    place, gpu = plan.place, plan.profile.gpu
    if not place.gpu_type:
        return default("none requested")
    if place.gpu_type == gpu.default_type:
        return from_profile(plan.profile, "gpu.default_type")
    if place.partitions and place.gpu_type == plan.profile.type_of(place.partitions):
        return derived(f"the GPU type of partition {', '.join(place.partitions)}")
    return Reason(PROFILE, f"the only GPU type of {plan.site}, which requires one")


def _further(plan: Plan, option: str, origin: Origin) -> Reason:
    if option == "array" and plan.sweep:
        return derived(
            "a task for each run of the sweep" if plan.sweep.per_task == 1 else "the tasks of the sweep"
        )
    if text := requeue.bad_node_reason(plan.request, option):
        return derived(text)
    if option in plan.request.sbatch:
        return origin(f"sbatch.{option}")
    if option in MAIL:
        return origin(MAIL[option])
    if plan.request.in_segments and option in SEGMENT_REASONS:
        return Reason(DERIVED, SEGMENT_REASONS[option])
    if plan.request.may_stop_early and option in REQUEUE_REASONS:
        return Reason(DERIVED, REQUEUE_REASONS[option])
    return from_profile(plan.profile, f"sbatch.{option}" if option in plan.profile.sbatch else "when")


def _variable(plan: Plan, name: str, comment: str | None, origin: Origin) -> Reason:
    if name in plan.request.env:
        return origin(f"env.{name}")
    if name in (*OWN, STAGED_DATA, RUN_DIR) and comment:
        return derived(comment)
    return Reason(PROFILE, comment) if comment else from_profile(plan.profile, plan.profile.env.key_of(name))


def _in_task(plan: Plan, name: str, comment: str | None) -> Reason:
    if name not in plan.ranks.settings.task_env:
        return derived(f"{plan.ranks.launcher.why_task_env}, because {plan.ranks.launcher.why}")
    return Reason(PROFILE, comment) if comment else from_profile(plan.profile, f"env.task.{name}")


def _chosen(plan: Plan, what: str) -> Reason:
    site, names = plan.profile, plan.place.partitions
    if what == "partition" and not plan.ranks.layout.gpus:
        return Reason(PROFILE, f"the partition of {plan.site} for jobs without GPUs")
    if what == "partition" and not set(names) & set(site.default_partitions):
        of_qos = plan.request.qos in site.qos and site.qos[plan.request.qos].partitions
        reason = f"that accepts QoS {plan.request.qos}" if of_qos else f"with {plan.place.gpu_type} GPUs"
        return derived(f"the partition {reason}")
    several = len(site.default_partitions if what == "partition" else site.default_qos) > 1
    first = "the first default of {} whose limits allow the job" if several else "the default of {}"
    return Reason(PROFILE, first.format(plan.site))


def as_dict(plan: Plan) -> dict[str, object]:
    """The plan as `explain --json` prints it; every value is a JSON type."""
    numbers = (
        "site framework name nodes gpus_per_node ntasks_per_node procs_per_task cpus_per_task world_size "
        "mem time requeue segments"
    ).split()
    why = explain(plan)
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
        "charge": charge(plan),
        "directives": dict(plan.directives),
        "env": plan.env,
        "secrets": list(plan.request.secrets or ()),
        "task_env": {variable.name: variable.value for variable in plan.ranks.variables},
        "notes": notes(plan),
        "launch": _joined(plan.step.lines),
        "script": plan.script,
        "program": " ".join(plan.ranks.program.words),
        "preflight": _joined(plan.preflight),
        "on_bad_node": (plan.request.on_bad_node or "stop") if plan.preflight else None,
        "requeue_signal": f"{plan.notice.by}@{plan.notice.lead}" if plan.notice else None,
        "sweep": _described(plan.sweep) if plan.sweep else None,
        "stage": [*(plan.request.stage or ()), *(plan.request.stage_archives or ())],
        "before_login": list(plan.request.before_login or ()),
        "before": list(plan.request.before or ()),
        "then": [" ".join(_joined(one.lines)) for one in plan.then],
        "after": list(plan.request.after or ()),
        "output": plan.output,
        "command": plan.command,
        "cited": _cited(plan),
        "reasons": {key: reason.text for key, reason in why.items()},
        "sources": {key: reason.source for key, reason in why.items()},
    }


def _cited(plan: Plan) -> dict[str, str]:
    names = {
        name
        for reason in explain(plan).values()
        for name in plan.profile.sources
        if f"[{name}]" in reason.text
    }
    return {name: str(plan.profile.sources[name]) for name in plan.profile.sources if name in names}


def _joined(lines: tuple[tuple[str, ...], ...]) -> list[str]:
    return [" ".join(words) for words in lines]
