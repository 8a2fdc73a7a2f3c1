"""The values that a template of a batch script places; they are computed here, and only here."""

from typing import Any

from slurmgen.launchers import Launcher, Layout
from slurmgen.plan import Plan
from slurmgen.plan.bad_nodes import TRIES, excluded
from slurmgen.plan.next_steps import NextStep
from slurmgen.plan.ranks import Ranks
from slurmgen.python_env import COMMENTS
from slurmgen.slurm.node_step import on_each_node
from slurmgen.slurm.shell import quote
from slurmgen.text import counted

_COLUMNS = 96


def values_of(plan: Plan) -> dict[str, Any]:
    """The values for templates; docs/templates.md documents them."""
    return {
        "plan": plan,
        "title": _title(plan),
        "command": plan.command,
        "directives": plan.directives,
        "excluded": excluded(plan.request),
        "tries": TRIES,
        "modules": plan.setup.modules,
        "module_checks": _module_checks(plan.setup.needs),
        "python_setup": plan.setup.python_setup,
        "python_comment": COMMENTS.get(plan.setup.python_env.partition(":")[0]),
        "variables": plan.variables,
        "sweep": plan.sweep,
        "rendezvous": plan.rendezvous,
        "needs_workers": plan.nodes > 1 and any(launcher.needs_workers for launcher in _launchers(plan)),
        "stage_step": plan.staging.step if plan.staging else "",
        "prepare": _prepare(plan),
        "before_login": plan.request.before_login or (),
        "before": plan.request.before or (),
        "after": plan.request.after or (),
        "unstage_step": plan.staging.removal if plan.staging else "",
        "segments": plan.segments,
        "goes_on": plan.goes_on,
        "then": [_next_step(one) for one in plan.then],
        "rendezvous_suffix": quote(plan.rendezvous.suffix) if plan.rendezvous else "",
        "preflight_lines": [wrapped(words) for words in plan.preflight],
        "step_comment": _step_comment(plan.ranks),
        "expands_in_task": plan.step.expands_in_task,
        "step_lines": [wrapped(words) for words in plan.step.lines],
    }


def _launchers(plan: Plan) -> list[Launcher]:
    """The launchers of all steps."""
    return [ranks.launcher for ranks in (plan.ranks, *(one.ranks for one in plan.then))]


def _next_step(one: NextStep) -> dict[str, Any]:
    lines = [wrapped(words) for words in one.step.lines]
    return {
        "comment": _step_comment(one.ranks),
        "lines": lines,
        "expands_in_task": one.step.expands_in_task,
    }


def _module_checks(needs: tuple[str, ...]) -> list[str]:
    return [f': "${{{name}:?is not set; a module should set it}}"' for name in needs]


def _prepare(plan: Plan) -> list[str]:
    """The first lines; those for each node run in a step with one task per node."""
    launch, nodes = plan.ranks.settings.launch, plan.nodes
    of_launchers = dict.fromkeys(line for launcher in _launchers(plan) for line in launcher.before)
    first = [*plan.setup.fetch, *of_launchers, *launch.before]
    if not launch.before_on_each_node:
        return first
    step = on_each_node("\n".join(launch.before_on_each_node), nodes)
    return [*first, "# Once on each node.", *step]


def _title(plan: Plan) -> str:
    each = f"a sweep of {counted(len(plan.sweep.runs), 'run')}, each with " if plan.sweep else ""
    return f"{plan.name} on {plan.site}: {plan.framework}, {each}{_where(plan.world_size, plan.ranks.layout)}"


def _where(world_size: int, layout: Layout) -> str:
    each = " each" if layout.nodes > 1 and layout.gpus else ""
    gpus = f"with {counted(layout.gpus_per_node, 'GPU')}" if layout.gpus else "without GPUs"
    return f"{counted(world_size, 'rank')} on {counted(layout.nodes, 'node')} {gpus}{each}"


def _step_comment(ranks: Ranks) -> str:
    tasks, procs = counted(ranks.ntasks_per_node, "task"), counted(ranks.procs_per_task, "rank")
    return f"{tasks} per node, {procs} per task: {ranks.launcher.why}."


def wrapped(words: tuple[str, ...]) -> str:
    """The words in lines of at most 100 columns, unless a single word is longer."""
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(word.partition("\n")[0]) < _COLUMNS:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return " \\\n    ".join(lines)
