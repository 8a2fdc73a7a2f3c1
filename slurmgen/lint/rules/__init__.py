"""The rules, one module for each theme; the docstring of a rule is its page."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from slurmgen.lint.finding import RULES, Rule

TOO_LARGE = "SG801"
"The rule that reports that a script is not checked in full."

OTHER_SCHEDULER = "SG119"
"The only rule that applies to a script for another scheduler."

EXPANDED = "SG107"
"The rule about variables in directives, which the shell expands in a here-document."


@cache
def all_rules() -> dict[str, Rule]:
    """Every rule by its code, sorted by code."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
    return dict(sorted(RULES.items()))
