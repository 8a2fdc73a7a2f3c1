"""conda is not initialized in a batch shell.

## What it checks
Checks for `conda activate` without an earlier command that could initialize conda: a sourced file, a loaded
module, or an `eval`. `source activate` is not reported: it needs only the PATH, which sbatch passes on.
Neither are scripts that use a login shell or an interactive shell.

## Why it matters
`conda activate` is a shell function that .bashrc defines, and a batch script does not read .bashrc.

## Example
    conda activate torch

## Use instead
    eval "$(conda shell.bash hook)"
    conda activate torch

## When to ignore
If the shell that submits the job exports the functions of conda.

## Reference
conda/conda issue 9193
"""

import re
from collections.abc import Iterator

from slurmgen.lint.finding import Finding, Site
from slurmgen.lint.reader import Command, Script

CODE = "SG502"
SEVERITY = "warning"
SUMMARY = "conda is not initialized in a batch shell"

_INITIALIZERS = ("source", ".", "eval", "module", "ml", "spack")

_UNRELATED = re.compile(
    r"(\S*/)?(cuda|cudnn|gcc|nccl|openmpi|mpi|intel|nvhpc|rocm|cmake|git|compilers?|apptainer|singularity)"
    r"([-_/][\w.-]*)*"
)
"Modules that do not contain conda."

_VERBS = ("load", "add", "purge", "reset", "list", "-q")


def check(script: Script, _site: Site | None) -> Iterator[Finding]:
    """Check every activation, and the commands before it."""
    letters = "".join(word for word in script.first_line.split()[1:] if word.startswith("-"))
    if "l" in letters or "i" in letters:
        return
    for command in script.commands:
        activates = command.texts[1:2] == ["activate"]
        if command.name == "conda" and activates:
            yield _finding(command, "no command before this one initializes conda")
            return
        if _initializes(command) or command.name.startswith("conda_init"):
            return


def _initializes(command: Command) -> bool:
    """Whether a command may initialize conda; a module may, unless it is known to be another tool."""
    if command.name not in ("module", "ml"):
        return command.name in _INITIALIZERS
    names = [text for text in command.texts[1:] if text not in _VERBS]
    return not all(_UNRELATED.fullmatch(name) for name in names)


def _finding(command: Command, fact: str) -> Finding:
    return Finding(command.span, fact, 'write `eval "$(conda shell.bash hook)"`, then `conda activate NAME`')
