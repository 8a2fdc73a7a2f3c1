"""The rule pages: `python -m slurmgen.lint.docs` writes docs/rules.md from the rules' docstrings."""

import re
import textwrap
from pathlib import Path

from slurmgen.lint.finding import Rule
from slurmgen.lint.rules import all_rules

SECTIONS = ("What it finds", "Why it is bad", "Example", "Use instead", "Reference")
PAGE = Path("docs", "rules.md")

_GROUPS = {
    "SG1": "The header",
    "SG2": "The shape: nodes, tasks, ranks and GPUs",
    "SG3": "How ranks meet",
    "SG4": "CPUs",
    "SG5": "The shell around the step",
    "SG6": "Signals and requeue",
    "SG7": "The training script, where it is at hand",
    "SG8": "What is not checked",
    "SG9": "The site, with --site",
}

_HEAD = """\
# Lint rules

Made from the rules' docstrings by `python -m slurmgen.lint.docs`. `slurmgen lint --explain CODE` prints one.
A rule is silent where the text of the script does not tell.

"""


def page() -> str:
    """The whole of docs/rules.md."""
    parts = [_HEAD, _table(), "\n"]
    for prefix, title in _GROUPS.items():
        parts.append(f"# {title}\n\n")
        parts += [explain(rule, "##") + "\n" for code, rule in all_rules().items() if code.startswith(prefix)]
    return "".join(parts).rstrip("\n") + "\n"


def explain(rule: Rule, heading: str = "#") -> str:
    """The page of one rule."""
    title = f"{heading} {rule.code} {rule.name}\n\n*{rule.severity}*: {rule.summary}.\n\n"
    body = textwrap.dedent(rule.doc).strip()
    return title + re.sub(r"^## ", f"{heading}# ", body, flags=re.MULTILINE) + "\n"


def _table() -> str:
    rows = [
        f"| {rule.code} | {rule.name} | {rule.severity} | {rule.summary} |" for rule in all_rules().values()
    ]
    return "\n".join(["| code | name | severity | what |", "|---|---|---|---|", *rows]) + "\n"


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
