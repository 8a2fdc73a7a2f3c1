"""`set -u` is in effect while modules or conda are loaded.

## What it checks
Checks for `module`, `ml`, `conda activate`, and sourced profile, module or conda scripts while `set -u` is in
effect.

## Why it matters
These tools run shell code that uses unset variables. The job ends there with "unbound variable", often only
on the compute node.

## Example
    set -euo pipefail
    module load cuda

## Use instead
    set -eo pipefail
    module load cuda

## When to ignore
If the modules of the site work with `set -u`.

## Reference
conda/conda issue 3200
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Edit, Finding, Site
from slurmgen.lint.reader import Command, Script
from slurmgen.lint.rules.common import is_literal

CODE = "SG501"
SEVERITY = "warning"
SUMMARY = "set -u breaks module and conda"

_SCRIPTS = ("conda.sh", "/etc/profile", "bashrc", "lmod.sh", "modules.sh", "/init/bash")

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
    if command.name in ("module", "ml"):
        return True
    if command.name in ("conda", "mamba", "micromamba"):
        return words[1:2] in (["activate"], ["deactivate"])
    return (
        command.name in ("source", ".")
        and len(words) > 1
        and (words[1] == "activate" or words[1].endswith(_SCRIPTS))
    )


def _without_u(script: Script, commands: tuple[Command, ...]) -> tuple[Edit, ...]:
    for command in reversed(commands):
        for word in command.words[1:] if command.name == "set" else ():
            letters = word.text.removeprefix("-")
            if word.text[:1] == "-" and "u" in letters and is_literal(script, word):
                return (Edit(word.span, f"-{letters.replace('u', '')}" if letters != "u" else "+u"),)
    return ()
