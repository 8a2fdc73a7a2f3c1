"""render: a plan into the text of a batch script.

Templates place values and compute nothing. One folder of a project's own may replace
any of them by name; the others stay.
"""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurmgen.errors import ConfigError
from slurmgen.paths import bundled
from slurmgen.plan import Plan
from slurmgen.slurm.shell import quote
from slurmgen.software import COMMENTS
from slurmgen.wording import counted

if TYPE_CHECKING:
    from jinja2 import Environment, Template

MAIN_TEMPLATE = "job.sbatch.j2"

_COLUMNS = 96
_TEMPLATE_HINT = "Mend the template; docs/templates.md lists its values."


def render(plan: Plan, template_dir: Path | None = None, cache_dir: Path | None = None) -> str:
    """The batch script of a plan, byte for byte the same for the same plan.

    Args:
        plan: what the script is to say.
        template_dir: a folder whose templates replace the bundled ones of the same name.
        cache_dir: where compiled templates are kept, if they are to be kept: it saves 5 ms.

    Raises:
        ConfigError: a template of that folder is wrong.
    """
    try:
        return _main_template(template_dir, cache_dir).render(_values(plan))
    except Exception as error:  # a template may do anything wrong that Python can
        if template_dir is None:
            raise
        place = getattr(error, "filename", None) or template_dir
        raise ConfigError(f"{place}: {error}", _TEMPLATE_HINT) from error


@lru_cache(maxsize=8)
def _main_template(template_dir: Path | None, cache_dir: Path | None) -> "Template":
    return _environment(template_dir, cache_dir).get_template(MAIN_TEMPLATE)


def _environment(template_dir: Path | None, cache_dir: Path | None) -> "Environment":
    from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined

    folders = [*([template_dir] if template_dir else []), bundled("templates")]
    environment = Environment(  # noqa: S701  (the output is a shell script; values are quoted for a shell)
        loader=FileSystemLoader(folders),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
        bytecode_cache=FileSystemBytecodeCache(str(cache_dir)) if cache_dir else None,
    )
    environment.filters["quote"] = quote
    return environment


def _values(plan: Plan) -> dict[str, Any]:
    """What a template can place; docs/templates.md is the list for people."""
    return {
        "plan": plan,
        "title": _title(plan),
        "command": plan.command,
        "directives": plan.directives,
        "modules": plan.setup.modules,
        "module_checks": _module_checks(plan.setup.needs),
        "python_setup": plan.setup.python_setup,
        "python_comment": COMMENTS.get(plan.setup.python_env.partition(":")[0]),
        "variables": plan.variables,
        "rendezvous": plan.rendezvous,
        "rendezvous_suffix": quote(plan.rendezvous.suffix) if plan.rendezvous else "",
        "step_comment": _step_comment(plan.ntasks_per_node, plan.procs_per_task, plan.launcher.why),
        "expands_in_task": plan.step.expands_in_task,
        "step_lines": [_wrapped(words) for words in plan.step.lines],
    }


@lru_cache(maxsize=256)
def _module_checks(needs: tuple[str, ...]) -> list[str]:
    return [f': "${{{name}:?is not set; a module should have}}"' for name in needs]


def _title(plan: Plan) -> str:
    return f"{plan.name} on {plan.site}: {plan.framework}, {_where(plan.nodes, plan.gpus_per_node)}"


@lru_cache(maxsize=256)
def _where(nodes: int, gpus_per_node: int) -> str:
    each = " each" if nodes > 1 else ""
    ranks, gpus = counted(nodes * gpus_per_node, "rank"), counted(gpus_per_node, "GPU")
    return f"{ranks} on {counted(nodes, 'node')} with {gpus}{each}"


@lru_cache(maxsize=256)
def _step_comment(ntasks_per_node: int, procs_per_task: int, why: str) -> str:
    return f"{counted(ntasks_per_node, 'task')} per node, {counted(procs_per_task, 'rank')} per task: {why}."


@lru_cache(maxsize=1024)
def _wrapped(words: tuple[str, ...]) -> str:
    """The words in lines of at most 100 columns, if a word itself is not longer."""
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(word) < _COLUMNS:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return " \\\n    ".join(lines)
