"""The rules: one a file. A file's docstring is the rule's page in docs/rules.md."""

from functools import lru_cache
from importlib import import_module
from pkgutil import iter_modules

from slurmgen.lint.finding import Rule


@lru_cache(maxsize=1)
def rules() -> dict[str, Rule]:
    """Every rule by its code."""
    names = sorted(module.name for module in iter_modules(__path__) if module.name.startswith("sg"))
    found = [_rule(name) for name in names]
    return {rule.code: rule for rule in found}


def _rule(module_name: str) -> Rule:
    module = import_module(f"{__name__}.{module_name}")
    name = module_name.partition("_")[2].replace("_", "-")
    return Rule(module.CODE, name, module.SEVERITY, module.SUMMARY, module.__doc__ or "", module.check)
