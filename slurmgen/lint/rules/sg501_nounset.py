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

from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Command, Script
from slurmgen.lint.rules.common import is_literal

CODE = "SG501"
SEVERITY = "warning"
SUMMARY = "set -u breaks profiles"

_SCRIPTS = ("/etc/profile", "bashrc", "setvars.sh")


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
