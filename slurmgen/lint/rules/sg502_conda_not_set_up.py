"""conda is not initialized in a batch shell.

## What it checks
Checks for `source activate`, and for `conda activate` without an earlier command that could initialize conda:
a sourced file, a loaded module or an `eval`. Scripts that use a login shell are not reported for the latter.

## Why it matters
`conda activate` is a shell function that .bashrc defines, and a batch script does not read .bashrc. `source
activate` is obsolete since conda 4.4, and runs whichever file named `activate` is found, if any.

## Example
    source activate torch

## Use instead
    eval "$(conda shell.bash hook)"
    conda activate torch

## Reference
conda/conda issue 9193
"""

from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Command, Script

CODE = "SG502"
SEVERITY = "warning"
SUMMARY = "conda is not initialized in a batch shell"

_INITIALIZERS = ("source", ".", "eval", "module", "ml", "spack")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check every activation, and the commands before it."""
    initialized = any("l" in word for word in script.first_line.split()[1:] if word.startswith("-"))
    for command in script.commands:
        if command.name in ("source", ".") and command.texts[1:2] == ["activate"]:
            yield _finding(command, "`source activate` is obsolete, and may find no script or the wrong one")
        elif command.name == "conda" and command.texts[1:2] == ["activate"] and not initialized:
            yield _finding(command, "no command before this one initializes conda")
            return
        initialized |= command.name in _INITIALIZERS and command.texts[1:2] != ["activate"]


def _finding(command: Command, fact: str) -> Finding:
    return Finding(command.span, fact, 'write `eval "$(conda shell.bash hook)"`, then `conda activate NAME`')
