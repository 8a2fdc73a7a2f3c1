"""The rules: one a file. Its name has the rule's code, its docstring is the rule's page in docs/rules.md."""

from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path

from slurmgen.lint.finding import Rule

SITE_CODES = "SG9"
"How the codes of rules begin that are silent without a site."

TOO_LARGE = "SG801"
"The rule that reports what the others could not see."

_LAUNCHERS = ("torch", "accelerate", "deepspeed")
WORDS: dict[str, tuple[str, ...]] = {
    "SG102": ("\r",),
    "SG109": ("mem-",),
    **dict.fromkeys(("SG201", "SG202", "SG203", "SG204", "SG205", "SG206", "SG303", "SG304"), _LAUNCHERS),
    "SG207": ("gpus-per-t",),
    "SG208": ("accelerate",),
    "SG305": ("rdzv",),
    "SG306": ("SLURM_NODEID", "SLURM_PROCID", "SLURM_LOCALID"),
    "SG307": ("localhost", "127.0.0.1", "0.0.0.0"),  # noqa: S104
    "SG308": ("hostname",),
    "SG309": ("head",),
    "SG502": ("activate",),
    "SG503": ("apptainer", "singularity", "podman", "docker"),
    "SG504": ("uv",),
    "SG506": ("|",),
    "SG507": ("&",),
    "SG508": ("($", "( $"),
    "SG509": ("+e",),
    **dict.fromkeys(("SG601", "SG602", "SG603"), ("sig",)),
    **dict.fromkeys(("SG604", "SG605", "SG606"), ("requeue",)),
    **dict.fromkeys(("SG701", "SG702", "SG703"), (".py",)),
}
"""Words of which a script has at least one if a rule is to find anything in it.

Importing a rule costs more than running it, and most scripts concern half of them.
"""


def concerns(code: str, text: str) -> bool:
    """Whether a rule can find anything in a text."""
    return code not in WORDS or any(word in text for word in WORDS[code])


@lru_cache(maxsize=1)
def rule_names() -> dict[str, str]:
    """The name of every rule's module by the rule's code; none is imported."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("sg*_*.py"))
    return {name.partition("_")[0].upper(): name for name in names}


@cache
def rule(code: str) -> Rule:
    """One rule."""
    name = rule_names()[code]
    module = import_module(f"{__name__}.{name}")
    title = name.partition("_")[2].replace("_", "-")
    return Rule(module.CODE, title, module.SEVERITY, module.SUMMARY, module.__doc__ or "", module.check)


def all_rules() -> dict[str, Rule]:
    """Every rule by its code."""
    return {code: rule(code) for code in rule_names()}
