"""The rules, one per module: its name starts with the rule's code, its docstring is the rule's page."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from slurmgen.lint.finding import Rule

TOO_LARGE = "SG801"
"The rule that reports that a script is not checked in full."

OTHER_SCHEDULER = "SG119"
"The only rule that applies to a script for another scheduler."


@cache
def all_rules() -> dict[str, Rule]:
    """Every rule by its code, sorted by code."""
    names = sorted(module.name for module in iter_modules(__path__) if module.name.startswith("sg"))
    rules = [_rule(import_module(f"{__name__}.{name}")) for name in names]
    return {rule.code: rule for rule in rules}


def _rule(module: ModuleType) -> Rule:
    name = module.__name__.partition("_")[2].replace("_", "-")
    return Rule(module.CODE, name, module.SEVERITY, module.SUMMARY, module.__doc__ or "", module.check)
