"""`set -u` is in effect while a profile is loaded.

## What it checks
Checks for a sourced `/etc/profile`, `.bashrc` or `setvars.sh` while `set -u` is in effect. `module load` and
conda are not reported: their current versions work with `set -u`.

## Why it matters
Many profiles use unset variables. The job ends there with
"unbound variable", often only on the compute node.

## Example
    set -euo pipefail
    source ~/.bashrc

## Use instead
    set -eo pipefail
    source ~/.bashrc

## When to ignore
If the profile is known to work with `set -u`.

## Reference
https://www.gnu.org/software/bash/manual/html_node/The-Set-Builtin.html
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Command, Script
from slurmgen.lint.rules.common import is_literal

CODE = "SG501"
SEVERITY = "warning"
SUMMARY = "set -u breaks profiles"

_SCRIPTS = ("/etc/profile", "bashrc", "setvars.sh")

_PATHS = ("LD_LIBRARY_PATH", "PYTHONPATH", "LIBRARY_PATH", "CPATH")
"Variables that are often unset."
_NOUNSET = re.compile(r" -\w*u|-o nounset")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Report the first such command, and fix the `set` before it."""
    for index, command in enumerate(script.commands):
        if "nounset" in command.settings and _uses_unset_variables(command):
            yield Finding(
                command.span,
                f"`{' '.join(command.texts[:2])}` runs under `set -u`, but may use unset variables",
                "remove the u from `set`, or write `set +u` before this line",
                _without_u(script, script.commands[:index]),
            )
            return
    yield from _path_variables(script)


def _path_variables(script: Script) -> Iterator[Finding]:
    """Additions to a path variable that may be unset, before a module or a file can set it."""
    others = [c for c in script.commands if c.name in ("module", "ml", "source", ".", "conda", "eval")]
    set_u = [c for c in script.commands if c.name == "set" and _NOUNSET.search(" ".join(c.texts))]
    if not set_u:
        return
    for found in script.assigned(*_PATHS):
        is_plain = re.search(rf"\$({found.name}\b|\{{{found.name}\}})", found.raw)
        first = next(script.assigned(found.name)) is found
        before = any(command.span.start < found.span.start for command in others)
        if is_plain and first and not before and set_u[0].span.start < found.span.start:
            yield Finding(
                found.span,
                f"under `set -u`, the script ends here if ${found.name} is not set",
                f"write `${{{found.name}:-}}`",
            )
            return


def _uses_unset_variables(command: Command) -> bool:
    words = command.texts
    return command.name in ("source", ".") and len(words) > 1 and words[1].endswith(_SCRIPTS)


def _without_u(script: Script, commands: tuple[Command, ...]) -> tuple[Edit, ...]:
    for command in reversed(commands):
        for word in command.words[1:] if command.name == "set" else ():
            letters = word.text.removeprefix("-")
            if word.text[:1] == "-" and "u" in letters and is_literal(script, word):
                return (Edit(word.span, f"-{letters.replace('u', '')}" if letters != "u" else "+u"),)
    return ()
