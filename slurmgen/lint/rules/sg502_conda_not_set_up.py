"""conda is not initialized in a batch shell.

## What it checks
Checks for `conda activate` and `source activate` without an earlier command that could initialize conda: a
sourced file, a loaded module, an `eval`, or for `source activate` a change of PATH. Scripts that use a login
shell or an interactive shell are not reported.

## Why it matters
`conda activate` is a shell function that .bashrc defines, and a batch script does not read .bashrc. `source
activate` is obsolete since conda 4.4, and runs whichever file named `activate` is found, if any.

## Example
    source activate torch

## Use instead
    eval "$(conda shell.bash hook)"
    conda activate torch

## When to ignore
If the shell that submits the job has conda on its PATH, and sbatch exports the PATH.

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
    path_set = min((found.span.start for found in script.assigned("PATH")), default=None)
    for command in script.commands:
        activates = command.texts[1:2] == ["activate"]
        if command.name in ("source", ".") and activates:
            if path_set is None or path_set > command.span.start:
                yield _finding(command, "`source activate` may find no script, or the wrong one")
            return
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
