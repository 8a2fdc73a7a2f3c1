"""render: turn a plan into the text of a batch script.

Templates place values and compute nothing. A project may replace any of them by name. A project's templates
are untrusted programs: they are rendered in Jinja's sandbox, in a separate process with limits on time and
memory.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from slurmgen.paths import bundled
from slurmgen.plan import Plan
from slurmgen.script.templates import MAIN_TEMPLATE, environment_of
from slurmgen.script.values import values_of

if TYPE_CHECKING:
    from jinja2 import Template


def render(plan: Plan, template_dir: Path | None = None, cache_dir: Path | None = None) -> str:
    """The batch script of a plan, byte for byte the same for the same plan.

    Args:
        plan: the plan of the job.
        template_dir: a folder whose templates replace the bundled ones of the same name.
        cache_dir: a private folder for the bundled templates in compiled form, which saves 8 ms.

    Raises:
        ConfigError: a template of that folder fails.
    """
    return render_all([plan], template_dir, cache_dir)[0]


def render_all(
    plans: Sequence[Plan], template_dir: Path | None = None, cache_dir: Path | None = None
) -> list[str]:
    """The batch script of each plan; see `render`."""
    if template_dir is None or not plans:
        template = _main_template(cache_dir)
        return [template.render(values_of(plan)) for plan in plans]
    from slurmgen.script.own_templates import render_own  # 6 ms

    return render_own(plans, template_dir.absolute())


def render_setup(plan: Plan, *, software: bool = True) -> str:
    """The lines of the batch script that export its variables, without a project's own templates.

    Args:
        plan: the plan of the job.
        software: also the lines that load its modules and activate its Python.
    """
    environment, names = _main_template(None).environment, ("software.j2", "environment.j2")
    parts = [environment.get_template(name) for name in (names if software else names[1:])]
    return "\n".join(part.render(values_of(plan)).strip() for part in parts).strip()


@lru_cache(maxsize=1)
def _main_template(cache_dir: Path | None) -> "Template":
    """The bundled template of the whole script."""
    from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader

    environment = environment_of(Environment, FileSystemLoader(bundled("templates")))
    environment.bytecode_cache = FileSystemBytecodeCache(str(cache_dir)) if cache_dir else None
    return environment.get_template(MAIN_TEMPLATE)
