"""The linter: faults of a batch script that burn queue time, seen in its text.

    >>> import slurmgen.lint
    >>> [report.rule.code for report in slurmgen.lint("#!/bin/bash\\n#SBATCH --time=24:00\\n")]
    ['SG110']

The package is a function too, so that `slurmgen.lint(text, site=None)` is one name for both.
"""

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from slurmgen.lint.engine import chosen, fix_all, fixed, lint_text
from slurmgen.lint.finding import Edit, Finding, Report, Rule
from slurmgen.lint.rules import all_rules

if TYPE_CHECKING:
    from slurmgen.site import Site


def lint(text: str, site: "Site | str | None" = None, path: Path | None = None) -> tuple[Report, ...]:
    """Every fault of a batch script.

    Args:
        text: the script.
        site: the cluster it is for, or its name.
        path: where the script lies, so that the training script can be found.

    Raises:
        ConfigError: there is no such site.
    """
    if isinstance(site, str):
        from slurmgen.profiles import load_site

        site = load_site(site)
    return lint_text(text, site, path)


class _Callable(ModuleType):
    """This package, callable."""

    def __call__(
        self, text: str, site: "Site | str | None" = None, path: Path | None = None
    ) -> tuple[Report, ...]:
        """Every fault of a batch script; see `lint`."""
        return lint(text, site, path)


sys.modules[__name__].__class__ = _Callable

__all__ = [
    "Edit",
    "Finding",
    "Report",
    "Rule",
    "all_rules",
    "chosen",
    "fix_all",
    "fixed",
    "lint",
    "lint_text",
]
