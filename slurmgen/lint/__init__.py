"""The linter: finds mistakes in batch scripts that waste queue time.

    >>> import slurmgen.lint
    >>> [report.rule.code for report in slurmgen.lint("#!/bin/bash\\n#SBATCH --time=24:00\\n")]
    ['SG110']

The package is callable: `slurmgen.lint(text, site=None)` calls the function `lint`.
"""

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from slurmgen.lint.engine import chosen, fix, fix_all, fixed, lint_text
from slurmgen.lint.finding import Edit, Finding, Report, Rule
from slurmgen.lint.rules import all_rules

if TYPE_CHECKING:
    from slurmgen.sites.model import Site


def lint(text: str, site: "Site | str | None" = None, path: Path | None = None) -> tuple[Report, ...]:
    """Lint a batch script, and return the findings in the order of the lines.

    Args:
        text: the script.
        site: the target cluster, or its name.
        path: the path of the script, needed to find the training script.

    Raises:
        ConfigError: the site does not exist.
    """
    if isinstance(site, str):
        from slurmgen.sites.profiles import load_site

        site = load_site(site)
    return lint_text(text, site, path)


class _Callable(ModuleType):
    """Makes this package callable."""

    def __call__(
        self, text: str, site: "Site | str | None" = None, path: Path | None = None
    ) -> tuple[Report, ...]:
        """Lint a batch script; see `lint`."""
        return lint(text, site, path)


sys.modules[__name__].__class__ = _Callable

__all__ = [
    "Edit",
    "Finding",
    "Report",
    "Rule",
    "all_rules",
    "chosen",
    "fix",
    "fix_all",
    "fixed",
    "lint",
    "lint_text",
]
