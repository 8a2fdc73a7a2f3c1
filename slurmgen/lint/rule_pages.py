"""The rule pages. `python -m slurmgen.lint.rule_pages` writes docs/rules.md from the rules' docstrings."""

import re
from pathlib import Path

from slurmgen.lint.finding import Rule
from slurmgen.lint.rules import all_rules

SECTIONS = (
    "What it checks",
    "Why it matters",
    "Example",
    "Use instead",
    "When to ignore",
    "Reference",
)
PAGE = Path("docs", "rules.md")
GROUPS = {
    "SG1": "Header",
    "SG2": "Nodes, tasks, ranks and GPUs",
    "SG3": "Rendezvous",
    "SG4": "CPUs",
    "SG5": "Shell commands",
    "SG6": "Signals and requeue",
    "SG7": "Training script (if available)",
    "SG8": "Limits of the linter",
    "SG9": "Site (with --site)",
}
_HEAD = """\
# Lint rules

`python -m slurmgen.lint.rule_pages` generates this page from the docstrings of the rules.
`slurmgen lint --explain CODE` prints the page of one rule. A rule reports nothing if the script does not
contain the information it needs.

Severities: an error makes the job fail, or compute something else. A warning wastes time, or collides with
other jobs. A note is advice that many scripts can ignore; `--notes` and `--select CODE` report it.

"""


def page() -> str:
    """The content of docs/rules.md."""
    parts = [_HEAD, _table(), "\n"]
    for prefix, title in GROUPS.items():
        parts.append(f"# {title}\n\n")
        parts += [explain(rule, "##") + "\n" for code, rule in all_rules().items() if code.startswith(prefix)]
    return "".join(parts).rstrip("\n") + "\n"


def explain(rule: Rule, heading: str = "#") -> str:
    """The page of one rule."""
    title = f"{heading} {rule.code} {rule.name}\n\nSeverity: {rule.severity}\n\n"
    return title + re.sub(r"^## ", f"{heading}# ", rule.doc, flags=re.MULTILINE) + "\n"


def _table() -> str:
    rows = [
        f"| {rule.code} | {rule.name} | {rule.severity} | {rule.summary.replace('|', chr(92) + '|')} |"
        for rule in all_rules().values()
    ]
    return "\n".join(["| code | name | severity | summary |", "|---|---|---|---|", *rows]) + "\n"


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
